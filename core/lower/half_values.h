// HalfValues: what a kernel does with f16 and bf16 values that never lie in memory.
//
// Purpose: a value that the user sees as f16 or bf16 is rounded where the kernel goes on with it, unless excess
// precision is allowed (core/graph/excess_precision.h) or rounding changes nothing; a kernel that only moves such
// values moves their bits. Invariants: answers follow from the group. Thread safety: one object is used by one thread.
#pragma once

#include <set>

#include "heddle/core/ir/groups.h"

namespace heddle {

class HalfValues {
 public:
  HalfValues(const ScheduledGraph& scheduled, const Group& group);
  // Whether this kernel moves f16 and bf16 values and computes nothing with them.
  bool only_moved() const { return only_moved_; }
  // Whether a value of the vertex is rounded to its dtype before the kernel goes on with it; of a cast to it.
  bool rounds(int id);
  bool rounds_cast(int id);
  // By this kernel, not loaded from memory as it was stored.
  bool computed_here(int id) const;

 private:
  bool is_read(int id);
  bool find_only_moved() const;

  const ScheduledGraph& scheduled_;
  const Group& group_;
  std::set<int> read_;  // vertices whose value something in this kernel computes with; empty until somebody asks
  bool rounds_, only_moved_;
};

}  // namespace heddle
