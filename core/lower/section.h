// Section: a box of a group's index space that one launch computes, bound to a part of each buffer.
//
// Purpose: where memory is larger than a binding may be, core/lower/sections.h lowers a group once for each of its
// sections. Variables are those of the group's indices: its domain's, then its inner dimensions'; behind them one
// for each take, over the rows of its table. Invariants: an index counts from the
// section's first elements, an address from what is bound of its slot. Thread safety: plain values.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "heddle/core/ir/access.h"
#include "heddle/core/ir/lowered_kernel.h"

namespace heddle {

// The first variable that runs over the rows that a take reads.
constexpr int first_pick_variable = 2 * Shape::max_rank;

// Elements of a slot that a kernel touches; an opaque index: any.
struct Touch {
  SlotRef slot;
  int64_t element_bytes = 4;
  Index index;
};

// What lowering says of the group as a whole.
struct Touched {
  std::vector<Touch> touches;
  std::vector<int> picks;          // takes and gathers; the first one's variable is first_pick_variable
  std::map<int, int64_t> extents;  // of the variables of picks
  std::set<int> divisible;         // variables along which the work may be cut
  int pick_variable(int vertex);   // that of a take, which is noted
};

struct Section {
  std::map<int, int64_t> first, size;  // by variable; 0 and everything where it is not named
  std::map<SlotRef, uint64_t> begins;  // bytes of a slot that lie before what is bound
  Touched* touched = nullptr;

  int64_t first_of(int variable) const;
  // Elements of a slot that are not bound.
  int64_t skipped(SlotRef slot, int64_t element_bytes) const;
};

// Notes that the work may be cut along all dimensions of the shape, whose variables are the first.
void note_divisible(const Section* section, const Shape& shape);
// `shape`, whose variables begin at `variable`, inside the section; the whole shape where there is none.
Shape within(const Section* section, const Shape& shape, int variable);
// The elements of an operand's view that belong to the section; `variables`: of each dimension, or -1.
View within(const Section& section, View view, const std::vector<int>& variables);
// Notes that the kernel reads or writes the view; a dimension without a variable is read from end to end.
void note_view(const Section& section, SlotRef slot, DType dtype, const View& view, const std::vector<int>& variables);

}  // namespace heddle
