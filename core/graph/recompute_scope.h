// RecomputeScope: the mark that nodes get while a function is checkpointed (core/graph/checkpoint.h).
//
// Invariants: the outermost scope says which mark. Thread safety: per thread, as recording is.
#pragma once

#include "heddle/core/graph/node_ptr.h"

namespace heddle {

// Marks what this thread records during its life.
class RecomputeScope {
 public:
  explicit RecomputeScope(Keep mark = Keep::inside);
  ~RecomputeScope();
  RecomputeScope(const RecomputeScope&) = delete;
  RecomputeScope& operator=(const RecomputeScope&) = delete;
  // What the thread marks nodes with now: the outermost scope's mark.
  static Keep mark();
  static bool active() { return mark() != Keep::plain; }
};

// While alive, nothing is marked: the body of a loop is marked as a whole, by its loop.
class RecomputePause {
 public:
  RecomputePause();
  ~RecomputePause() { end(); }
  RecomputePause(const RecomputePause&) = delete;
  RecomputePause& operator=(const RecomputePause&) = delete;
  void end();

 private:
  int before_;
  Keep mark_;
};

}  // namespace heddle
