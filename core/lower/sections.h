// Kernels whose memory is larger than a binding may be: one launch for each section of their work.
//
// Purpose: a binding covers at most Caps::max_binding_bytes (128 MiB on many drivers), an embedding of 151,936 x 1,024
// floats takes 622 MB. Lowering a group says which elements of each slot it touches, as affine indices; from these
// follow the fewest equal sections along the variables that move most, and what is bound of each slot for each. A take
// of a table that is larger than a binding runs once for each stretch of the table's rows and stores the elements
// whose row is there, so nothing is summed in another order than before. Invariants: sections together compute each
// element once; a group within the limit is lowered as ever. Errors: LimitError where a value cannot be cut, such as
// rows that are each larger than a binding. Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "heddle/core/lower/lower_input.h"

namespace heddle {

// How many bytes a graph's slots hold, and which groups need more of one than a binding may cover.
class BindingLimit {
 public:
  BindingLimit(const ScheduledGraph& scheduled, const Caps& caps);
  uint64_t bytes(SlotRef slot) const;
  uint64_t most() const { return most_; }
  uint64_t alignment() const { return alignment_; }  // of what is bound of a slot
  bool is_exceeded_by(const Group& group) const;

 private:
  void note(int slot, uint64_t bytes);
  bool exceeds(int vertex) const;

  const ScheduledGraph& scheduled_;
  uint64_t most_, alignment_;
  std::vector<uint64_t> inputs_;  // by slot
  bool any_ = false;
};

// The group in sections. `lower`: lowers the whole or a section of it.
LoweredKernel lower_in_sections(const LowerInput& in, const BindingLimit& limit,
                                LoweredKernel (*lower)(const LowerInput& in));

}  // namespace heddle
