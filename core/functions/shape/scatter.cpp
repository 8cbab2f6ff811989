// Writes that combine: scatter_reduce, index_reduce, index_add along an axis, index_copy, masked_scatter.
#include "heddle/core/functions/shape/scatter.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <memory>

#include "heddle/core/functions/build_shape.h"
#include "heddle/core/functions/math/cast.h"
#include "heddle/core/functions/math/elementwise.h"
#include "heddle/core/functions/math/math.h"
#include "heddle/core/functions/math/reduce.h"
#include "heddle/core/functions/math/sort.h"
#include "heddle/core/functions/shape/create.h"
#include "heddle/core/functions/shape/index.h"
#include "heddle/core/functions/shape/index_check.h"
#include "heddle/core/functions/shape/movement.h"
#include "heddle/core/functions/shape/pick.h"
#include "heddle/core/functions/shape/shape.h"
#include "heddle/core/graph/custom.h"
#include "heddle/core/op/attrs.h"
#include "heddle/core/op/decompose.h"
#include "heddle/core/op/primitives.h"

namespace heddle {
namespace {

using build::check_index_dtype;
using build::positions;
using build::product;

// x (O, R, I), indices and source (O, J, I).
struct Picks {
  Tensor x, indices, source;
  bool few() const { return indices.dim(1) <= 16 || indices.dim(1) * x.dim(1) <= 1024; }
  Shape grid() const { return Shape{x.dim(0), x.dim(1), indices.dim(1), x.dim(2)}; }
  Shape narrow() const { return Shape{x.dim(0), 1, indices.dim(1), x.dim(2)}; }
  // (O, R, J, I): whether the pick j names the row.
  Tensor matches() const { return eq(expand(reshape(indices, narrow()), grid()), positions(grid(), 1, x.device())); }
  Tensor spread() const { return expand(reshape(source, narrow()), grid()); }
};

// The combination of a row's picks (O, R, I), and whether there are any.
struct Combined {
  Tensor value, hit;
};

double least(DType t) {
  switch (t) {
    case DType::u8:
      return 0;
    case DType::i8:
      return std::numeric_limits<int8_t>::min();
    case DType::i32:
      return std::numeric_limits<int32_t>::min();
    case DType::i64:
      return static_cast<double>(std::numeric_limits<int64_t>::min());
    default:
      return -std::numeric_limits<double>::infinity();
  }
}

// The largest of a row's picks, or the smallest by the order of -source (integers: of ~source, which turns the order
// without overflow).
Combined largest(const Picks& p) {
  if (p.few()) {
    const Tensor match = p.matches();
    return {
        max(where(match, p.spread(), full(p.grid(), least(p.source.dtype()), p.source.dtype(), &p.x.device())), {2}),
        max(cast(match, DType::i32), {2}) > 0};
  }
  const Tensor source = permute(p.source, {0, 2, 1}), indices = permute(p.indices, {0, 2, 1});  // (O, I, J)
  const Tensor by_value = argsort(source);
  const Ordered by_row = sort(gather(indices, 2, by_value));  // stable: the last of a row is its largest
  const Tensor place = build::last_place(by_row.values, p.x.dim(1)), safe = maximum(place, 0);
  const Tensor found = gather(source, 2, gather(by_value, 2, gather(by_row.indices, 2, safe)));
  return {permute(found, {0, 2, 1}), permute(place >= 0, {0, 2, 1})};
}
Combined smallest(const Picks& p) {
  const bool floats = is_float(p.source.dtype()), bytes = p.source.dtype() == DType::u8;
  const auto turn = [&](const Tensor& v) { return floats ? -v : bytes ? 255 - v : bitwise_not(v); };
  const Combined found = largest({p.x, p.indices, turn(p.source)});
  return {turn(found.value), found.hit};
}

// Products of the picks of each row; 1 without one. Many picks: products of runs of equal indices, doubled in length
// step by step.
Tensor products(const Picks& p) {
  if (p.few()) return cast(prod(where(p.matches(), p.spread(), 1), {2}), p.source.dtype());
  const int64_t n = p.indices.dim(1);
  const Ordered order = sort(permute(p.indices, {0, 2, 1}));  // (O, I, J)
  Tensor runs = gather(permute(p.source, {0, 2, 1}), 2, order.indices);
  for (int64_t step = 1; step < n; step *= 2) {
    const Tensor same = eq(slice(order.values, 2, {.start = step}), slice(order.values, 2, {.stop = n - step}));
    const Tensor factor = where(same, slice(runs, 2, {.stop = n - step}), 1);
    runs = runs * pad(factor, {{0, 0}, {0, 0}, {step, 0}}, 1);
  }
  const Tensor place = build::last_place(order.values, p.x.dim(1));
  return permute(where(place >= 0, gather(runs, 2, maximum(place, 0)), 1), {0, 2, 1});
}

// The part of x that indices reach, its picks, and how the result goes back.
struct Reached {
  Picks picks;
  Shape part;
};
Reached reached(const Tensor& x, int at, const Tensor& indices, const Tensor& source) {
  std::vector<Slice> named, covered;
  for (int i = 0; i < x.rank(); ++i) {
    named.push_back({.start = 0, .stop = indices.dim(i)});
    covered.push_back({.start = 0, .stop = i == at ? x.dim(i) : indices.dim(i)});
  }
  const int64_t outer = product(indices.shape(), 0, at), inner = product(indices.shape(), at + 1, x.rank());
  const Shape listed{outer, indices.dim(at), inner};
  return {{reshape(slice(x, covered), Shape{outer, x.dim(at), inner}),
           reshape(build::narrowed(indices, x.dim(at)), listed), reshape(slice(source, named), listed)},
          indices.shape().with(at, x.dim(at))};
}
Tensor put_back(const Tensor& x, const Shape& part, const Tensor& value) {
  const Tensor block = reshape(value, part);
  if (part == x.shape()) return block;
  std::vector<std::pair<int64_t, int64_t>> rest;
  for (int i = 0; i < x.rank(); ++i) rest.emplace_back(0, x.dim(i) - part[i]);
  return where(cast(pad(full(part, 1, DType::i32, &x.device()), rest), DType::boolean), pad(block, rest), x);
}

// How many picks each element of x has, i32.
Tensor counts(const Tensor& x, int at, const Tensor& indices) {
  return scatter_add(zeros(x.shape(), DType::i32, &x.device()), at, indices,
                     full(indices.shape(), 1, DType::i32, &x.device()));
}

// Inputs: value, x, source, indices. Each of the elements that equal the extreme gets its share.
std::vector<Tensor> share_extreme(std::span<const Tensor> in, const Tensor& g, int at, bool include_self) {
  const Tensor &value = in[0], &x = in[1], &source = in[2], &indices = in[3];
  std::vector<Slice> named;
  for (int i = 0; i < x.rank(); ++i) named.push_back({.start = 0, .stop = indices.dim(i)});
  const double rows = static_cast<double>(x.dim(at));
  const Tensor chosen = indices >= 0 && indices < rows, safe = minimum(maximum(indices, 0), rows - 1);
  const auto same = [](const Tensor& a, const Tensor& b) { return a == b || (isnan(a) && isnan(b)); };
  const Tensor first = chosen && same(slice(source, named), gather(value, at, safe));
  Tensor own = same(x, value);
  if (!include_self) own = own && counts(x, at, indices) == 0;
  const Tensor many = scatter_add(cast(own, DType::f32), at, indices, cast(first, DType::f32));
  const Tensor share = g / cast(maximum(many, 1), g.dtype());
  std::vector<std::pair<int64_t, int64_t>> rest;
  for (int i = 0; i < x.rank(); ++i) rest.emplace_back(0, source.dim(i) - indices.dim(i));
  return {where(own, share, 0), pad(where(first, gather(share, at, safe), 0), rest)};
}

Tensor extreme(const Tensor& x, int at, const Tensor& indices, const Tensor& source, bool largest_wins,
               bool include_self) {
  const Reached r = reached(stop_gradient(x), at, indices, stop_gradient(source));
  const Combined found = largest_wins ? largest(r.picks) : smallest(r.picks);
  const Tensor best = !include_self  ? found.value
                      : largest_wins ? maximum(r.picks.x, found.value)
                                     : minimum(r.picks.x, found.value);
  const Tensor value = put_back(stop_gradient(x), r.part, where(found.hit, best, r.picks.x));
  if (!is_float(x.dtype())) return value;
  auto rule = std::make_shared<CustomRule>();
  rule->name = largest_wins ? "scatter_amax" : "scatter_amin";
  rule->arguments = 2;
  rule->vjp = [at, include_self](std::span<const Tensor> in, const Tensor& g) {
    return share_extreme(in, g, at, include_self);
  };
  const Tensor others[] = {x, source, indices};
  return make_custom(value, others, std::move(rule));
}

Tensor combine(const Tensor& x, int at, const Tensor& indices, const Tensor& source, ScatterReduction how,
               bool include_self) {
  if (indices.numel() == 0 || x.numel() == 0) return x;
  switch (how) {
    case ScatterReduction::amax:
      return extreme(x, at, indices, source, true, include_self);
    case ScatterReduction::amin:
      return extreme(x, at, indices, source, false, include_self);
    default:
      break;
  }
  const Tensor count = how == ScatterReduction::mean || !include_self ? counts(x, at, indices) : Tensor();
  const Tensor hit = include_self ? Tensor() : count > 0;
  const bool long_sum =
      how == ScatterReduction::mean && !is_float(x.dtype());  // the sum of narrow integers may not fit
  const Tensor self = long_sum ? cast(x, DType::i64) : build::widen(x), added = cast(source, self.dtype());
  if (how == ScatterReduction::prod) {
    const Reached r = reached(include_self ? self : where(hit, 1, self), at, indices, added);
    return cast(put_back(self, r.part, r.picks.x * products(r.picks)), x.dtype());
  }
  const Tensor total = scatter_add(include_self ? self : where(hit, 0, self), at, indices, added);
  if (how == ScatterReduction::sum) return cast(total, x.dtype());
  const Tensor number = cast(include_self ? count + 1 : maximum(count, 1), total.dtype());
  return cast(is_float(x.dtype()) ? total / number : floor_divide(total, number), x.dtype());
}

void check_numbers(const char* op, const Tensor& x) {
  if (x.dtype() == DType::boolean)
    throw DTypeError(fmt::format("[{}] bool has no order or arithmetic; cast() to an integer dtype first", op));
}

// x, indices (n) and source (x's shape with n along the axis), checked; indices wrapped.
Tensor check_slices(const char* op, const Tensor& x, int at, const Tensor& indices, const Tensor& source) {
  check_index_dtype(indices, op);
  build::check_device(x, indices, op);
  build::check_dtypes(op, x, source);
  if (indices.rank() != 1 || source.shape() != x.shape().with(at, indices.dim(0))) {
    throw ShapeError(
        fmt::format("[{}] indices are (n), source is x with n slices along axis {}; got x {}, indices {}, source {}",
                    op, at, x.shape().str(), indices.shape().str(), source.shape().str()));
  }
  build::watch_indices(op, indices, {.axis = at, .size = x.dim(at), .from_end = true});
  return build::wrapped(indices, x.dim(at));
}

}  // namespace

Tensor scatter_reduce(const Tensor& x, int axis, const Tensor& indices, const Tensor& source, ScatterReduction how,
                      bool include_self, Caller caller) {
  const CallerScope scope(caller);
  const int at = build::axis_of("scatter_reduce", x, axis);
  build::check_dtypes("scatter_reduce", x, source);
  check_numbers("scatter_reduce", x);
  build::check_scatter("scatter_reduce", x, at, indices, source.shape());
  build::watch_indices("scatter_reduce", indices, {.axis = at, .size = x.dim(at)});
  return combine(x, at, indices, source, how, include_self);
}

Tensor index_reduce(const Tensor& x, int axis, const Tensor& indices, const Tensor& source, ScatterReduction how,
                    bool include_self, Caller caller) {
  const CallerScope scope(caller);
  const int at = build::axis_of("index_reduce", x, axis);
  check_numbers("index_reduce", x);
  const Tensor index = check_slices("index_reduce", x, at, indices, source);
  if (x.numel() == 0 || source.numel() == 0) return x;
  Shape aligned(std::vector<int64_t>(static_cast<size_t>(x.rank()), 1));
  return combine(x, at, expand(reshape(index, aligned.with(at, index.dim(0))), source.shape()), source, how,
                 include_self);
}

Tensor index_add(const Tensor& x, int axis, const Tensor& indices, const Tensor& source, double alpha, Caller caller) {
  const CallerScope scope(caller);
  const int at = build::axis_of("index_add", x, axis);
  check_numbers("index_add", x);
  const Tensor index = check_slices("index_add", x, at, indices, source);
  if (x.numel() == 0 || source.numel() == 0) return x;
  if (x.dtype() == DType::u8 && alpha < 0 && alpha > -256 && alpha == std::floor(alpha))
    alpha += 256;  // what is subtracted wraps, as in PyTorch
  if (build::number_dtype(alpha, x.dtype()) != x.dtype())
    throw ValueError(fmt::format("[index_add] alpha must fit the dtype; got {} for {}", alpha, name_of(x.dtype())));
  const Tensor added = alpha == 1 ? source : source * alpha;
  const IndexGuardScope checked(false);  // above, as the caller gave them
  return at == 0 ? index_add(x, index, added)
                 : moveaxis(index_add(moveaxis(x, at, 0), index, moveaxis(added, at, 0)), 0, at);
}

Tensor index_copy(const Tensor& x, int axis, const Tensor& indices, const Tensor& source, Caller caller) {
  const CallerScope scope(caller);
  const int at = build::axis_of("index_copy", x, axis);
  const Tensor index = check_slices("index_copy", x, at, indices, source);
  if (x.numel() == 0 || source.numel() == 0) return x;
  return build::record(ops::copy_rows_op, {&x, &index, &source}, axis_attrs(at), x.shape(), x.dtype());
}

Tensor decompose_copy_rows(const Node& node) {
  const Tensor x(node.inputs[0]), indices(node.inputs[1]), source(node.inputs[2]);
  const int at = axis_of(node.attrs);
  const int64_t rows = x.dim(at);
  const Tensor pick = reshape(build::last_pick(reshape(indices, Shape{1, indices.dim(0), 1}), rows), Shape{rows});
  Shape aligned(std::vector<int64_t>(static_cast<size_t>(x.rank()), 1));
  return where(reshape(pick >= 0, aligned.with(at, rows)), take(source, maximum(pick, 0), at), x);
}

Tensor masked_scatter(const Tensor& x, const Tensor& mask, const Tensor& source, Caller caller) {
  const CallerScope scope(caller);
  build::check_device(x, mask, "masked_scatter");
  build::check_dtypes("masked_scatter", x, source);
  if (mask.dtype() != DType::boolean)
    throw DTypeError(fmt::format("[masked_scatter] the mask is bool; got {}; compare it with 0", build::show(mask)));
  if (!build::broadcasts_to(mask.shape(), x.shape())) {
    throw ShapeError(fmt::format("[masked_scatter] the mask broadcasts to x; got x {}, mask {}", x.shape().str(),
                                 mask.shape().str()));
  }
  if (x.numel() == 0) return x;
  if (source.numel() == 0)
    throw ShapeError(fmt::format("[masked_scatter] source {} has no elements to write", source.shape().str()));
  const Tensor hit = build::broadcast(mask, x.shape());
  const Tensor number = cumsum(cast(reshape(hit, Shape{x.numel()}), DType::i32), 0) - 1;  // of each written element
  const Tensor written = take(reshape(source, Shape{source.numel()}), maximum(number, 0));
  return where(hit, reshape(written, x.shape()), x);
}

}  // namespace heddle
