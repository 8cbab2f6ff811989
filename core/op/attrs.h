// What rows keep in Attrs, by name: which of its numbers means what is written here, in attrs.cpp, and nowhere else.
//
// Purpose: readers and writers of nodes and vertices share one reading. A struct is made from a vertex's Attrs, or
// filled in and packed. Invariants: packing what was read gives the same numbers; Attrs as they lie are what keys hold.
// Readers take Attrs that fits() the row's form; verify_graph() asks for that. Thread safety: values; views live as
// long as their Attrs.
#pragma once

#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "heddle/core/op/op.h"

namespace heddle {

// AttrsForm::axis: argmax, argmin, concat, take, gather, copy_rows, softmax, log_softmax, logsumexp.
int axis_of(const Attrs& attrs);
Attrs axis_attrs(int64_t axis);

// AttrsForm::axis: iota. An element is start + step times its index along the axis.
struct RangeAttrs {
  explicit RangeAttrs(int along, double first = 0, double by = 1) : axis(along), start(first), step(by) {}
  explicit RangeAttrs(const Attrs& attrs) : axis(axis_of(attrs)), start(attrs.real), step(attrs.real2) {}
  Attrs packed() const { return {{axis}, start, step}; }
  int axis;
  double start, step;
};

// AttrsForm::axes, ascending: sum, prod, max, min, flip.
inline const std::vector<int64_t>& axes_of(const Attrs& attrs) { return attrs.ints; }
const std::vector<int64_t>& axes_of(Attrs&&) = delete;
// Whether the axis is one of them.
bool names_axis(const Attrs& attrs, int axis);

// AttrsForm::order: permute. Dimension d of the result is dimension order[d] of the input.
inline const std::vector<int64_t>& order_of(const Attrs& attrs) { return attrs.ints; }
inline std::vector<int64_t>& order_of(Attrs& attrs) { return attrs.ints; }
const std::vector<int64_t>& order_of(Attrs&&) = delete;

// AttrsForm::before: pad. Elements of the border before the input, a dimension each; their value is Attrs::real.
inline const std::vector<int64_t>& border_of(const Attrs& attrs) { return attrs.ints; }
const std::vector<int64_t>& border_of(Attrs&&) = delete;

// AttrsForm::slice. Element i of dimension d is element start[d] + i step[d] of the input.
template <class Int>
struct SliceNumbers {
  explicit SliceNumbers(std::conditional_t<std::is_const_v<Int>, const Attrs&, Attrs&> attrs)
      : start(attrs.ints.data(), attrs.ints.size() / 2), step(attrs.ints.data() + start.size(), start.size()) {}
  std::span<Int> start, step;
};
using SliceAttrs = SliceNumbers<const int64_t>;
using SliceChange = SliceNumbers<int64_t>;  // writes where they lie
Attrs slice_attrs(std::span<const int64_t> start, std::span<const int64_t> step);

// AttrsForm::conv: conv, conv_input_grad, conv_weight_grad. Lists have an entry a spatial dimension.
struct ConvAttrs {
  ConvAttrs() = default;
  explicit ConvAttrs(const Attrs& attrs);
  Attrs packed() const;
  bool channels_last = false;
  int64_t groups = 1;
  std::vector<int64_t> stride, dilation, padding;  // padding: before
  int64_t parts = 0;                               // of partial sums; 0: the sum itself
  int rank() const { return static_cast<int>(stride.size()); }
};

// AttrsForm::attention: core/functions/nn/attention_problem.h says more.
struct AttentionAttrs {
  AttentionAttrs() = default;
  explicit AttentionAttrs(const Attrs& attrs);
  Attrs packed() const;
  bool causal = false;
  bool bias = false, mask = false, lengths = false, key = false;  // which inputs there are
  int64_t splits = 1;                                             // ranges of keys
  double scale = 1, drop = 0;
};

// AttrsForm::scan: cumsum, cumprod, cummax, logcumsumexp.
struct ScanAttrs {
  ScanAttrs() = default;
  explicit ScanAttrs(const Attrs& attrs);
  Attrs packed() const;
  int axis = 0;
  bool exclusive = false, reverse = false;
  int64_t chunk = 0;  // that one kernel scans by itself, made by specialize(); 0: not cut yet
};

// AttrsForm::sort: argsort, along the last axis.
struct SortAttrs {
  explicit SortAttrs(const Attrs& attrs);
  bool descending = false;
  int64_t kept = 0;   // indices of each block
  int64_t block = 0;  // elements, where specialize() cut a row into several; 0: the row is one block
};
Attrs sort_attrs(bool descending, int64_t kept, int64_t block = 0);

// AttrsForm::merge: sort_merge (core/ir/bodies.h).
struct MergeAttrs {
  explicit MergeAttrs(const Attrs& attrs);
  bool descending = false;
  int64_t run = 0;   // indices of a run that is there
  int64_t kept = 0;  // at most, of a merged run
};
Attrs merge_attrs(bool descending, int64_t run, int64_t kept);

// loop_result (core/graph/loop_node.h).
struct LoopResultAttrs {
  LoopResultAttrs(bool all, int64_t of) : stacked(all), index(static_cast<int>(of)) {}
  explicit LoopResultAttrs(const Attrs& attrs) : LoopResultAttrs(attrs.ints[0] != 0, attrs.ints[1]) {}
  Attrs packed() const { return {{stacked, index}}; }
  bool stacked;  // the value of every iteration; else the carry after the last one
  int index;     // of the body's vertex, or of the carry
};

// AttrsForm::triangle: solve_triangular, triangular_block.
struct TriangularAttrs {
  explicit TriangularAttrs(const Attrs& attrs);
  bool upper = false, transposed = false, unit = false;
};
Attrs triangular_attrs(bool upper, bool transposed, bool unit);

// AttrsForm::collective: psum, pmax, pmin, all_gather, reduce_scatter, all_to_all, ppermute, pvary.
struct CollectiveAttrs {
  explicit CollectiveAttrs(AxisMask over, std::vector<std::pair<int64_t, int64_t>> moves = {})
      : axes(over), pairs(std::move(moves)) {}
  explicit CollectiveAttrs(const Attrs& attrs);
  Attrs packed() const;
  AxisMask axes;
  std::vector<std::pair<int64_t, int64_t>> pairs;  // of ppermute: places that send, and those that receive
};

// Whether attributes have the numbers that the form wants; `rank` is that of the first input, or of a value without.
bool fits(AttrsForm form, const Attrs& attrs, int rank);

}  // namespace heddle
