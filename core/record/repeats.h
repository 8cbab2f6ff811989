// Repeats: the period of what a thread records, so that a loop that nobody looks at is cut where its parts are alike.
//
// Purpose: what is pending must not grow without end. Cut anywhere, each piece has a structure of its own: thousands of
// operations are planned, and the plan is never found again. Cut after whole periods, every piece after the first two
// is a step that is known. How: operations are told apart by op, attributes, shape and the line that records them. When
// 1024, 2048, ..., 16384 of them are pending, the smallest period of the latest three quarters is sought (Knuth, Morris
// and Pratt: linear); it counts with 16 repetitions (8 in 8192, 4 in 16384), so that the equal layers of a model are
// none; what one line records (a model, an update of many parameters) only counts in 16384. From then on, a piece ends
// after as many whole periods as make about 64 operations, where the loop begins again: at the largest step back of the
// line numbers. An operation that breaks the period ends that. Thread safety: none; each thread has its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "heddle/core/graph/node.h"

namespace heddle {

class Repeats {
 public:
  // Notes the next operation; true: what is pending should be computed now. `pending`: since the last evaluation, this
  // one included.
  bool note(const Node& node) { return note(fingerprint(node), node.where.caller.line()); }
  bool note(uint64_t fingerprint, uint32_t line);
  // What was pending was computed for another reason: a new beginning.
  void clear();
  size_t period() const { return period_; }  // 0: none known
  size_t piece() const;                      // operations of a piece: whole periods

  static uint64_t fingerprint(const Node& node);

 private:
  void search();

  std::vector<uint64_t> seen_;  // in period mode: of the last period, as a ring
  std::vector<uint32_t> lines_;
  size_t period_ = 0, at_ = 0, left_ = 0;
};

// The smallest p so that all[i] == all[i + p] wherever both exist; all.size() where nothing repeats.
size_t smallest_period(const std::vector<uint64_t>& all);

}  // namespace heddle
