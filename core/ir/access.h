// How a kernel reaches an element of a value: symbolic indices and composed views.
//
// Purpose: movement ops never copy; they change the index with which the value below them is read. A Path says how the
// index space of a kernel (its domain) maps to the elements of a node: first affine or opaque expressions for some
// shape (`base`), then a chain of movement ops. Where the chain composes to one View the access is affine and cheap;
// otherwise indices are computed op by op. Invariants: plain values. Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "heddle/core/ir/ir.h"

namespace heddle {

// constant + sum of coefficient * variable + opaque text (already printed, integer valued).
struct Index {
  int64_t constant = 0;
  std::vector<std::pair<int, int64_t>> terms;  // (domain variable, coefficient), ascending, no zero coefficients
  std::string opaque;

  static Index variable(int v) { return {0, {{v, 1}}, {}}; }
  static Index literal(int64_t c) { return {c, {}, {}}; }
  bool affine() const { return opaque.empty(); }
  bool is_literal() const { return opaque.empty() && terms.empty(); }
  Index plus(int64_t c) const;
  int64_t coefficient(int v) const;
  bool operator==(const Index&) const = default;
};
// Sum of affine indices times factors; both must be affine.
Index affine_sum(const Index& a, const Index& b, int64_t factor_b);

// The chain from a kernel's domain down to a node: `base` indexes `shape`; `ops` are movement nodes (ids), nearest to
// the domain first.
struct Path {
  std::vector<Index> base;
  Shape shape;
  std::vector<int> ops;

  static Path domain(const Shape& shape);  // variables 0..rank-1
  // The elements of `shape`, in row-major order, under the variables of `domain`: the two agree but for dimensions of
  // size 1.
  static Path over(const Shape& shape, const Shape& domain);
  Path through(int op) const {
    Path next = *this;
    next.ops.push_back(op);
    return next;
  }
};

// Elements of the largest value a kernel reads or writes: indices are 32-bit ints, and the lanes of a folded grid count
// up to a row of groups further.
constexpr int64_t addressable_elements = INT32_MAX - (int64_t{1} << 24);

// `shape` without its dimensions of size 1.
Shape squeezed(const Shape& shape);
// The view of `node`'s output when its input is seen as `view`; nothing when a reshape needs a copy.
std::optional<View> apply_view_op(const IrNode& node, const View& view);
// The view, over path.shape, of a value seen as `view`, through all of path.ops; nothing when a copy would be needed.
std::optional<View> compose(const Graph& graph, const std::vector<int>& ops, View view);

}  // namespace heddle
