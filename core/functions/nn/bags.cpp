// Bags, unpooling, alpha dropout.
#include "heddle/core/functions/nn/bags.h"

#include <fmt/format.h>

#include <cmath>

#include "heddle/core/functions/build_shape.h"
#include "heddle/core/functions/math/activations.h"
#include "heddle/core/functions/math/cast.h"
#include "heddle/core/functions/math/elementwise.h"
#include "heddle/core/functions/math/reduce.h"
#include "heddle/core/functions/nn/pool.h"
#include "heddle/core/functions/nn/spatial.h"
#include "heddle/core/functions/random/random.h"
#include "heddle/core/functions/shape/create.h"
#include "heddle/core/functions/shape/index.h"
#include "heddle/core/functions/shape/index_check.h"
#include "heddle/core/functions/shape/movement.h"
#include "heddle/core/functions/shape/ordered_sets.h"
#include "heddle/core/functions/shape/pick.h"
#include "heddle/core/functions/shape/scatter.h"

namespace heddle {
namespace {

using build::spread;
Tensor unpool(const char* op, int rank, const Tensor& x, const Tensor& indices, const std::vector<int64_t>& kernel,
              const PoolOptions& how, std::vector<int64_t> size) {
  build::check_device(x, indices, op);
  build::check_index_dtype(indices, op);
  if (x.rank() < rank + 1 || x.rank() > rank + 2 || indices.shape() != x.shape()) {
    throw ShapeError(
        fmt::format("[{}] x is {}, indices are {}; expected the same (N, C, spatial...) of {} spatial dimensions, N "
                    "perhaps missing",
                    op, x.shape().str(), indices.shape().str(), rank));
  }
  if (size.empty()) {
    const std::vector<int64_t> k = spread(op, "kernel", kernel, rank, 1, 1),
                               stride = how.stride.empty() ? k : spread(op, "stride", how.stride, rank, 1, 1);
    const std::vector<int64_t> padding = spread(op, "padding", how.padding, rank, 0, 0);
    for (int d = 0; d < rank; ++d) {
      const auto i = static_cast<size_t>(d);
      size.push_back((x.dim(x.rank() - rank + d) - 1) * stride[i] - 2 * padding[i] + k[i]);
    }
  }
  size = spread(op, "size", size, rank, 1, 1);
  Shape shape = x.shape();
  int64_t elements = 1;
  for (int d = 0; d < rank; ++d) {
    const int64_t n = size[static_cast<size_t>(d)];
    shape = shape.with(x.rank() - rank + d, n);
    elements = build::times(elements, n);
  }
  const int64_t outer = build::product(x.shape(), 0, x.rank() - rank), inner = outer == 0 ? 0 : x.numel() / outer;
  const Tensor empty = zeros(Shape{outer, elements}, x.dtype(), &x.device());
  if (inner == 0) return reshape(empty, shape);
  build::watch_indices(op, indices, {.axis = x.rank() - rank, .size = elements});
  return reshape(build::scatter_into(empty, 1, reshape(indices, Shape{outer, inner}), reshape(x, Shape{outer, inner})),
                 shape);
}

// 1 where kept, of the given shape.
Tensor alpha_drop(const char* op, const Tensor& x, double p, bool training, const Shape& shape, Generator* generator) {
  if (!(p >= 0 && p < 1)) throw ValueError(fmt::format("[{}] the probability is {}; it must be in [0, 1)", op, p));
  if (!is_float(x.dtype()))
    throw DTypeError(fmt::format("[{}] needs a floating tensor, not {}; cast it first", op, name_of(x.dtype())));
  if (!training || p == 0) return x;
  const double low = -1.0507009873554804934 * 1.6732632423543772848, keep = 1 - p;
  const double a = 1 / std::sqrt(keep + low * low * keep * p), b = -a * low * p;
  const Tensor kept = uniform(shape, 0, 1, &x.device(), generator) >= p;
  return cast(where(kept, a * build::widen(x) + b, a * low + b), x.dtype());
}

}  // namespace

Tensor embedding_bag(const Tensor& indices, const Tensor& offsets, const Tensor& weight, BagMode mode,
                     const Tensor& weights, Caller caller) {
  const CallerScope scope(caller);
  for (const Tensor& t : {indices, offsets}) {
    build::check_device(t, weight, "embedding_bag");
    build::check_index_dtype(t, "embedding_bag");
  }
  const bool weighted = weights.defined();
  if (indices.rank() != 1 || offsets.rank() != 1 || weight.rank() != 2 ||
      (weighted && weights.shape() != indices.shape())) {
    throw ShapeError(fmt::format(
        "[embedding_bag] indices are {}, offsets {}, weight is {}{}; expected (n), (B) and (rows, D), and (n) weights",
        indices.shape().str(), offsets.shape().str(), weight.shape().str(),
        weighted ? ", weights " + weights.shape().str() : ""));
  }
  if (weighted && mode != BagMode::sum) throw ValueError("[embedding_bag] weights are for sums alone");
  const int64_t n = indices.dim(0), bags = offsets.dim(0);
  build::watch_indices("embedding_bag", indices, {.size = weight.dim(0), .from_end = true});
  build::watch_indices("embedding_bag", offsets, {.size = n + 1, .noun = "offset"});
  const Tensor none = zeros(Shape{bags, weight.dim(1)}, weight.dtype(), &weight.device());
  if (n == 0 || none.numel() == 0) return none;
  const Tensor bag =
      cast(searchsorted(build::bounded(offsets, n), build::positions(Shape{n}, 0, weight.device()), true), DType::i32) -
      1;
  const Tensor rows = build::widen(take(weight, indices, 0)), start = cast(none, rows.dtype());
  if (mode == BagMode::max)
    return cast(index_reduce(start, 0, where(bag < 0, bags, bag), rows, ScatterReduction::amax, false), weight.dtype());
  const Tensor total = index_add(start, bag, weighted ? rows * cast(unsqueeze(weights, 1), rows.dtype()) : rows);
  if (mode == BagMode::sum) return cast(total, weight.dtype());
  const Tensor count = sum(cast(eq(expand(unsqueeze(bag, 0), Shape{bags, n}),
                                   expand(build::positions(Shape{bags, 1}, 0, weight.device()), Shape{bags, n})),
                                DType::i32),
                           {1}, true);
  return cast(total / cast(maximum(count, 1), total.dtype()), weight.dtype());
}

Tensor lp_pool3d(const Tensor& x, double p, std::vector<int64_t> kernel, const PoolOptions& how, Caller caller) {
  const CallerScope scope(caller);
  if (!(p > 0) || std::isinf(p))
    throw ValueError(fmt::format("[lp_pool3d] p is {}; it must be positive and finite", p));
  if (!how.padding.empty()) throw ValueError("[lp_pool3d] takes no padding; pad() the input");
  const std::vector<int64_t> k = spread("lp_pool3d", "kernel", kernel, 3, 1, 1);
  const Tensor in = build::as_float(x), wide = build::widen(in),
               powers = p == 1   ? abs(wide)
                        : p == 2 ? square(wide)
                                 : pow(abs(wide), p);
  const Tensor total =
      avg_pool3d(
          powers, k,
          {.stride = how.stride, .padding = {}, .dilation = how.dilation, .ceil = how.ceil, .count_padding = false}) *
      (static_cast<double>(k[0]) * static_cast<double>(k[1]) * static_cast<double>(k[2]));
  const Tensor none = total == 0, base = where(none, 1, total);
  return cast(p == 1 ? total : where(none, 0, p == 2 ? sqrt(base) : pow(base, 1 / p)), in.dtype());
}

#define HEDDLE_UNPOOL(rank)                                                                       \
  Tensor max_unpool##rank##d(const Tensor& x, const Tensor& indices, std::vector<int64_t> kernel, \
                             const PoolOptions& how, std::vector<int64_t> size, Caller caller) {  \
    const CallerScope scope(caller);                                                              \
    return unpool("max_unpool" #rank "d", rank, x, indices, kernel, how, std::move(size));        \
  }
HEDDLE_UNPOOL(1)
HEDDLE_UNPOOL(2)
HEDDLE_UNPOOL(3)
#undef HEDDLE_UNPOOL

Tensor alpha_dropout(const Tensor& x, double p, bool training, Generator* generator, Caller caller) {
  const CallerScope scope(caller);
  return alpha_drop("alpha_dropout", x, p, training, x.shape(), generator);
}
Tensor feature_alpha_dropout(const Tensor& x, double p, bool training, Generator* generator, Caller caller) {
  const CallerScope scope(caller);
  if (x.rank() < 2)
    throw ShapeError(fmt::format("[feature_alpha_dropout] x is {}; expected (N, C, ...)", x.shape().str()));
  Shape shape{x.dim(0), x.dim(1)};
  for (int d = 2; d < x.rank(); ++d) shape.push_back(1);
  return alpha_drop("feature_alpha_dropout", x, p, training, shape, generator);
}

Tensor rrelu(const Tensor& x, double low, double high, bool training, Generator* generator, Caller caller) {
  const CallerScope scope(caller);
  if (!(low <= high))
    throw ValueError(fmt::format("[rrelu] low is {}, high {}; low must not be the larger", low, high));
  const Tensor in = build::as_float(x);
  if (!training) return leaky_relu(in, (low + high) / 2);
  return where(in > 0, in, in * cast(uniform(in.shape(), low, high, &in.device(), generator), in.dtype()));
}

}  // namespace heddle
