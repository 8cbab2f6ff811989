// Builders of reduce.inc.
#include <limits>

#include "heddle/onnx/ops/build.h"

namespace heddle::onnx::build {
namespace {

// f(x, axes, keepdim); nothing is reduced where there are no axes and the node says so.
template <class F>
void reduction(Call& c, const F& f, bool identity = true) {
  const Type type = c.type(0);
  const Tensor x = c.tensor(0);
  const std::optional<std::vector<int64_t>> given = c.list("axes", 1);
  const bool nothing = !given || given->empty();
  std::vector<int> axes;
  if (nothing && c.integer("noop_with_empty_axes", 0) != 0) {
    if (identity) return c.out(x, type);
    // A reduction of each element by itself: of a new axis.
    const Tensor each = f(unsqueeze(x, -1), std::vector<int>{x.rank()}, false);
    return c.out(wrap(heddle::cast(each, x.dtype()), type), type);
  }
  if (!nothing) axes = as_ints(*given);
  for (int& axis : axes) axis = c.axis(axis, x.rank());
  if (x.rank() == 0) axes.clear();
  c.out(wrap(heddle::cast(f(x, axes, c.integer("keepdims", 1) != 0), x.dtype()), type), type);
}

// What a reduction of integers needs: i64, or floats as they are.
Tensor wide(const Tensor& x) { return heddle::is_float(x.dtype()) ? x : heddle::cast(x, DType::i64); }

template <class F>
void extreme(Call& c, bool largest, const F& f) {
  const Type type = c.type(0);
  reduction(c, [&](const Tensor& x, const std::vector<int>& axes, bool keep) {
    if (x.numel() == 0) {  // of nothing: the least or the greatest value of the type
      const Tensor shape = heddle::sum(heddle::cast(x, DType::f32), axes, keep);
      if (!onnx::is_float(type)) return expand(number(c, type, largest ? lowest(type) : highest(type)), shape.shape());
      const double infinity = std::numeric_limits<double>::infinity();
      return full(shape.shape(), largest ? -infinity : infinity, x.dtype(), &x.device());
    }
    return in_order(f(in_order(x, type), axes, keep), type);
  });
}

void arg_extreme(Call& c, bool largest) {
  Tensor x = c.tensor(0);
  const int axis = c.axis(c.integer("axis", 0), x.rank());
  const bool keep = c.integer("keepdims", 1) != 0, last = c.integer("select_last_index", 0) != 0;
  if (last) x = flip(x, {axis});
  x = in_order(x, c.type(0));
  const Tensor at = largest ? argmax(x, axis, keep) : argmin(x, axis, keep);
  c.out(last ? static_cast<double>(x.dim(axis) - 1) - at : at);
}

}  // namespace

void arg_max(Call& c) { arg_extreme(c, true); }
void arg_min(Call& c) { arg_extreme(c, false); }

#define HEDDLE_REDUCTION(name, expression, identity)                                                       \
  void name(Call& c) {                                                                                     \
    reduction(                                                                                             \
        c, [](const Tensor& x, const std::vector<int>& axes, bool keep) { return expression; }, identity); \
  }
HEDDLE_REDUCTION(reduce_sum, heddle::sum(x, axes, keep), true)
HEDDLE_REDUCTION(reduce_prod, heddle::prod(x, axes, keep), true)
HEDDLE_REDUCTION(reduce_l1, heddle::sum(heddle::abs(wide(x)), axes, keep), false)
HEDDLE_REDUCTION(reduce_sum_square, heddle::sum(square(wide(x)), axes, keep), false)
HEDDLE_REDUCTION(reduce_l2, heddle::sqrt(heddle::sum(square(wide(x)), axes, keep)), false)
HEDDLE_REDUCTION(reduce_log_sum, heddle::log(heddle::sum(x, axes, keep)), false)
HEDDLE_REDUCTION(reduce_log_sum_exp, logsumexp(x, axes, keep), false)
#undef HEDDLE_REDUCTION

void reduce_mean(Call& c) {
  const Type type = c.type(0);
  reduction(c, [&](const Tensor& x, const std::vector<int>& axes, bool keep) {
    if (onnx::is_float(type)) return heddle::mean(x, axes, keep);
    const Tensor total = heddle::sum(x, axes, keep);
    const int64_t results = std::max<int64_t>(total.numel(), 1);
    return divided(total, full_like(total, static_cast<double>(x.numel() / results)), Type::i64);
  });
}

void reduce_max(Call& c) {
  extreme(c, true, [](const Tensor& x, const std::vector<int>& axes, bool keep) { return heddle::max(x, axes, keep); });
}
void reduce_min(Call& c) {
  extreme(c, false,
          [](const Tensor& x, const std::vector<int>& axes, bool keep) { return heddle::min(x, axes, keep); });
}

void cum_sum(Call& c) {
  const Tensor x = c.tensor(0);
  const Tensor sums =
      cumsum(x, c.axis(c.whole(1), x.rank()), c.integer("exclusive", 0) != 0, c.integer("reverse", 0) != 0);
  c.out(wrap(heddle::cast(sums, x.dtype()), c.type(0)), c.type(0));
}

void cum_prod(Call& c) {
  const Tensor x = c.tensor(0);
  const Tensor all =
      cumprod(x, c.axis(c.whole(1), x.rank()), c.integer("exclusive", 0) != 0, c.integer("reverse", 0) != 0);
  c.out(wrap(heddle::cast(all, x.dtype()), c.type(0)), c.type(0));
}

void top_k(Call& c) {
  const Type type = c.type(0);
  const Tensor x = in_order(c.tensor(0), type);
  const int64_t k = c.opset() < 10 ? c.integer("k") : c.whole(1);
  const Ordered best = topk(x, k, c.axis(c.integer("axis", -1), x.rank()), c.integer("largest", 1) != 0);
  c.out(in_order(best.values, type), type);
  c.out(best.indices);
}

}  // namespace heddle::onnx::build
