// Attention that a user wrote out: softmax(scale q k^T + bias) v from products and a softmax. Internal to core and
// autograd.
//
// Purpose: one reading of the pattern for the planner, which replaces the forward pass
// (core/simplify/match_attention.cpp), and for autograd, which differentiates the fused row in its place
// (autograd/autograd.cpp), so that neither needs the matrix of scores. Recognised are: a softmax over the last axis,
// the library's or written out with or without its maximum; a scale before or after the product; biases; masks by
// where(), of which one that compares positions is causal; casts between floats. Not recognised: dropout of the
// weights, repeated key heads. The reader is one template, longer than other classes, because it is one pattern, read
// over the planner's vertices and over recorded nodes. Invariants: what is found means the same up to rounding, rows of
// NaN included. Thread safety: pure functions; recording is per thread.
#pragma once

#include <array>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "heddle/core/graph/node.h"
#include "heddle/core/graph/tensor.h"
#include "heddle/core/op/attrs.h"
#include "heddle/core/op/op.h"
#include "heddle/core/op/primitives.h"

namespace heddle {

// `Id` names a vertex. Conditions and biases are the vertices behind broadcasting: dimensions as the scores', or 1; the
// first ones may be missing.
template <class Id>
struct AttentionTerms {
  struct Hidden {
    Id condition{};
    bool keep = true;  // where true: the key counts; else: it is hidden
    double fill = 0;   // what stands for hidden scores
  };
  Id queries{}, keys{}, values{};  // (..., M, D), (..., D, N), (..., N, E)
  double scale = 1;
  bool causal = false;
  std::vector<Hidden> hidden;
  std::vector<Id> added;
  std::vector<Id> inside;  // vertices that nobody needs any more
  int rank = 4;            // of the scores
};

// The shape (B, H, x, y) of a matrix of scores of that rank, or of what broadcasts to one.
inline Shape shape_in_four(const Shape& shape, int rank) {
  Shape whole;
  for (int d = shape.rank(); d < rank; ++d) whole.push_back(1);
  for (const int64_t d : shape) whole.push_back(d);
  return rank == 4 ? whole : Shape{rank == 3 ? whole[0] : 1, 1, whole[rank - 2], whole[rank - 1]};
}

// `Source` says, of an Id: op(id), input(id, n), attrs(id), shape(id), dtype(id).
template <class Source>
class AttentionFinder {
 public:
  using Id = typename Source::Id;
  explicit AttentionFinder(const Source& source) : s_(source) {}

  // `root`: the product with the values.
  std::optional<AttentionTerms<Id>> find(const Id& root) {
    if (s_.op(root) != &ops::matmul_op || !is_float(s_.dtype(root))) return std::nullopt;
    rank_ = s_.shape(root).rank();
    if (rank_ < 2 || rank_ > 4) return std::nullopt;
    const Id probabilities = inner(s_.input(root, 0));
    full_ = s_.shape(probabilities);
    found_.rank = rank_;
    const std::optional<Id> scores = behind_softmax(probabilities);
    if (!scores || !read_scores(*scores, false)) return std::nullopt;
    found_.values = s_.input(root, 1);
    if (s_.dtype(found_.queries) != s_.dtype(found_.values) || s_.dtype(found_.keys) != s_.dtype(found_.values))
      return std::nullopt;
    return std::move(found_);
  }

 private:
  int64_t queries() const { return full_[rank_ - 2]; }
  int64_t keys() const { return full_[rank_ - 1]; }
  void leave(const Id& id) { found_.inside.push_back(id); }

  // `id` behind casts between floats; what is passed, and the result, vanish.
  Id inner(Id id) {
    while (passes_through(id)) {
      leave(id);
      id = s_.input(id, 0);
    }
    leave(id);
    return id;
  }
  Id behind(Id id) const {
    while (passes_through(id)) id = s_.input(id, 0);
    return id;
  }
  bool passes_through(const Id& id) const {
    if (s_.op(id) == &ops::stop_gradient_op) return true;
    return s_.op(id) == &ops::cast_op && is_float(s_.dtype(id)) && is_float(s_.dtype(s_.input(id, 0)));
  }

  // ---- the softmax
  std::optional<Id> behind_softmax(const Id& p) {
    if (s_.op(p) == &ops::softmax_op)
      return axis_of(s_.attrs(p)) == rank_ - 1 ? std::optional(s_.input(p, 0)) : std::nullopt;
    const bool divides = s_.op(p) == &ops::div_op;
    if (!divides && s_.op(p) != &ops::mul_op) return std::nullopt;
    for (const size_t side : {size_t{0}, size_t{1}}) {
      if (divides && side == 1) break;
      const size_t before = found_.inside.size();
      const Id e = inner(s_.input(p, side));
      if (s_.op(e) == &ops::exp_op && is_row(s_.input(p, 1 - side), ops::sum_op, e, !divides))
        return shifted(s_.input(e, 0));
      found_.inside.resize(before);
    }
    return std::nullopt;
  }

  // Is `id`, once a row, that reduction of x over the last axis (or its reciprocal)?
  bool is_row(Id id, const OpDef& reduction, const Id& x, bool inverse) {
    const Shape column = full_.with(rank_ - 1, 1), dropped = full_.without(rank_ - 1);
    while (true) {
      const Shape& shape = s_.shape(id);
      if (shape != full_ && shape != column && shape != dropped) return false;
      leave(id);
      const OpDef* op = s_.op(id);
      if (op == &reduction)
        return !inverse && axes_of(s_.attrs(id)) == std::vector<int64_t>{rank_ - 1} && behind(s_.input(id, 0)) == x;
      if (op == &ops::reciprocal_op && inverse) {
        inverse = false;
      } else if (op != &ops::expand_op && op != &ops::reshape_op && !passes_through(id)) {
        return false;
      }
      id = s_.input(id, 0);
    }
  }

  // The scores of which `z` are the exponents: the largest of a row may have been subtracted.
  Id shifted(const Id& argument) {
    const Id z = inner(argument);
    if (s_.op(z) != &ops::sub_op) return argument;
    const size_t before = found_.inside.size();
    const Id x = behind(s_.input(z, 0));
    if (is_row(s_.input(z, 1), ops::max_op, x, false)) return s_.input(z, 0);
    found_.inside.resize(before);
    return argument;
  }

  // ---- the scores. `scaled`: a factor was met outside, so that a bias would be scaled too.
  bool read_scores(const Id& argument, bool scaled) {
    const Id id = inner(argument);
    const OpDef* op = s_.op(id);
    if (op == &ops::matmul_op) return read_product(id);
    if (op == &ops::mul_op || op == &ops::div_op) {
      const std::optional<std::pair<Id, double>> product = factor(id);
      if (!product) return false;
      found_.scale *= product->second;
      return read_scores(product->first, true);
    }
    if (op == &ops::where_op) return read_mask(id, scaled);
    if (op != &ops::add_op || scaled) return false;
    for (const size_t side : {size_t{0}, size_t{1}}) {
      const AttentionTerms<Id> before = found_;
      found_.added.push_back(unspread(s_.input(id, 1 - side)));
      if (read_scores(s_.input(id, side), false)) return true;
      found_ = before;
    }
    return false;
  }

  bool read_product(const Id& id) {
    if (s_.shape(id) != full_) return false;
    found_.queries = without_factor(s_.input(id, 0));
    found_.keys = without_factor(s_.input(id, 1));
    return std::isfinite(found_.scale);
  }

  // A constant factor of an operand would make a copy of it.
  Id without_factor(Id id) {
    if (s_.op(id) != &ops::mul_op && s_.op(id) != &ops::div_op) return id;
    const std::optional<std::pair<Id, double>> product = factor(id);
    if (!product) return id;
    leave(id);
    found_.scale *= product->second;
    return product->first;
  }

  std::optional<std::pair<Id, double>> factor(const Id& id) const {
    const std::optional<double> right = constant(s_.input(id, 1));
    if (right && s_.op(id) == &ops::div_op)
      return *right == 0 ? std::nullopt : std::optional(std::pair(s_.input(id, 0), 1 / *right));
    if (right) return std::pair(s_.input(id, 0), *right);
    if (s_.op(id) == &ops::div_op) return std::nullopt;
    const std::optional<double> left = constant(s_.input(id, 0));
    return left ? std::optional(std::pair(s_.input(id, 1), *left)) : std::nullopt;
  }

  std::optional<double> constant(Id id) const {
    const DType t = s_.dtype(id);
    while (s_.op(id) == &ops::expand_op || s_.op(id) == &ops::reshape_op || passes_through(id)) id = s_.input(id, 0);
    if (s_.op(id) != &ops::full_op) return std::nullopt;
    std::array<unsigned char, 8> raw{};
    store_element(raw.data(), t, 0, s_.attrs(id).real);
    return load_element(raw.data(), t, 0);
  }

  // ---- masks
  bool read_mask(const Id& id, bool scaled) {
    for (const size_t side : {size_t{1}, size_t{2}}) {
      const std::optional<double> fill = constant(s_.input(id, 3 - side));
      // Hidden scores must not count beside others, nor after scaling.
      if (!fill || !(*fill <= -1e9) || (scaled && !(std::isinf(*fill) && found_.scale > 0))) continue;
      hide(s_.input(id, 0), side == 1, *fill);
      return read_scores(s_.input(id, side), scaled);
    }
    return false;
  }

  void hide(Id condition, bool keep, double fill) {
    condition = unspread(condition);
    const OpDef* op = s_.op(condition);
    if (op == &ops::logical_not_op) return hide(s_.input(condition, 0), !keep, fill);
    // What is kept by both, or hidden by either.
    if (op == (keep ? &ops::logical_and_op : &ops::logical_or_op)) {
      hide(s_.input(condition, 0), keep, fill);
      return hide(s_.input(condition, 1), keep, fill);
    }
    if (is_causal(condition, keep)) {
      found_.causal = true;
    } else {
      found_.hidden.push_back({condition, keep, fill});
    }
  }

  Id unspread(Id id) const {
    if (s_.op(id) == &ops::expand_op) id = s_.input(id, 0);
    while (s_.op(id) == &ops::reshape_op && s_.shape(id).rank() >= 2 &&
           s_.shape(s_.input(id, 0)).rank() < s_.shape(id).rank() &&
           shape_in_four(s_.shape(s_.input(id, 0)), s_.shape(id).rank()) ==
               shape_in_four(s_.shape(id), s_.shape(id).rank())) {
      id = s_.input(id, 0);  // dimensions of size 1 in front
    }
    return id;
  }

  // constant + queries * t + keys * s for query t and key s.
  struct Position {
    double constant = 0;
    std::array<double, 4> steps{};
  };

  // The value of an integer vertex as a function of its index, aligned to the scores' dimensions from the last one on.
  std::optional<Position> position(const Id& id, int depth = 12) const {
    const Shape& shape = s_.shape(id);
    if (depth == 0 || shape.rank() > 4) return std::nullopt;
    const OpDef* op = s_.op(id);
    if (op == &ops::full_op) return Position{s_.attrs(id).real, {}};
    if (op == &ops::iota_op) {
      const RangeAttrs range(s_.attrs(id));
      Position p{range.start, {}};
      p.steps[static_cast<size_t>(range.axis)] = range.step;
      return p;
    }
    if (op == &ops::add_op || op == &ops::sub_op) {
      std::optional<Position> a = position(s_.input(id, 0), depth - 1);
      const std::optional<Position> b = position(s_.input(id, 1), depth - 1);
      if (!a || !b) return std::nullopt;
      const double sign = op == &ops::add_op ? 1 : -1;
      a->constant += sign * b->constant;
      for (size_t d = 0; d < 4; ++d) a->steps[d] += sign * b->steps[d];
      return a;
    }
    if (op != &ops::cast_op && op != &ops::expand_op && op != &ops::reshape_op && op != &ops::permute_op &&
        op != &ops::slice_op)
      return std::nullopt;
    const std::optional<Position> inner = position(s_.input(id, 0), depth - 1);
    return inner ? moved(id, *inner) : std::nullopt;
  }

  std::optional<Position> moved(const Id& id, const Position& inner) const {
    const OpDef* op = s_.op(id);
    const Shape &shape = s_.shape(id), &from = s_.shape(s_.input(id, 0));
    if (op == &ops::cast_op)
      return is_integer(s_.dtype(id)) || s_.dtype(id) == DType::f32 ? std::optional(inner) : std::nullopt;
    Position p{inner.constant, {}};
    int wide = 0;  // next dimension of the input that is not 1
    for (int d = 0; d < shape.rank(); ++d) {
      const size_t at = static_cast<size_t>(d);
      if (op == &ops::permute_op) p.steps[at] = inner.steps[static_cast<size_t>(order_of(s_.attrs(id))[at])];
      if (op == &ops::expand_op && from[d] != 1) p.steps[at] = inner.steps[at];
      if (op == &ops::slice_op) {
        const SliceAttrs slice(s_.attrs(id));
        p.constant += inner.steps[at] * static_cast<double>(slice.start[at]);
        p.steps[at] = inner.steps[at] * static_cast<double>(slice.step[at]);
      }
      if (op == &ops::reshape_op && shape[d] != 1) {
        while (wide < from.rank() && from[wide] == 1) ++wide;
        if (wide == from.rank() || from[wide] != shape[d]) return std::nullopt;
        p.steps[at] = inner.steps[static_cast<size_t>(wide++)];
      }
    }
    return p;
  }

  // Does the condition say that key s counts for query t if and only if s <= t + keys - queries?
  bool is_causal(const Id& condition, bool keep) const {
    const OpDef* op = s_.op(condition);
    const bool less = op == &ops::lt_op || op == &ops::le_op, strict = op == &ops::lt_op || op == &ops::gt_op;
    if ((!less && op != &ops::gt_op && op != &ops::ge_op) || keys() < queries()) return false;
    const Shape& shape = s_.shape(condition);
    const std::optional<Position> a = position(s_.input(condition, 0)), b = position(s_.input(condition, 1));
    if (!a || !b || shape.rank() < 2) return false;
    // The condition is: difference > 0, or >= 0.
    const double sign = less ? -1 : 1;
    const double constant = sign * (a->constant - b->constant);
    std::array<double, 4> steps{};
    for (size_t d = 0; d < 4; ++d) steps[d] = sign * (a->steps[d] - b->steps[d]);
    const size_t last = static_cast<size_t>(shape.rank()) - 1;
    for (size_t d = 0; d + 1 < last; ++d) {
      if (steps[d] != 0) return false;
    }
    const double key = steps[last], query = steps[last - 1];
    if (shape[static_cast<int>(last)] != keys() || shape[static_cast<int>(last) - 1] != queries() || key == 0 ||
        key != -query)
      return false;
    const double offset = constant / std::abs(key), shift = static_cast<double>(keys() - queries());
    // key > 0: s - t > -offset says which are hidden; key < 0: s - t < offset says which count.
    if ((key < 0) != keep) return false;
    if (key > 0) return (strict ? std::floor(-offset) + 1 : std::ceil(-offset)) == shift + 1;
    return (strict ? std::ceil(offset) - 1 : std::floor(offset)) == shift;
  }

  const Source& s_;
  AttentionTerms<Id> found_;
  Shape full_;  // of the scores
  int rank_ = 0;
};

// ---- of recorded nodes

// The fused row in place of the product `root`, and what its inputs are: for autograd.
struct RecognisedAttention {
  NodePtr queries, keys, values;  // as the user's: keys (..., D, N)
  NodePtr added;                  // the one bias, or null
  Tensor packed;                  // the attention row
};
// Nothing where `root` is no attention, where somebody holds a value inside it, or where the device has no kernel for
// it.
std::optional<RecognisedAttention> recognise_attention(const NodePtr& root);

}  // namespace heddle
