#include "heddle/core/functions/shape/ordered_sets.h"

#include <fmt/format.h>

#include <bit>

#include "heddle/core/functions/build_shape.h"
#include "heddle/core/functions/math/cast.h"
#include "heddle/core/functions/math/elementwise.h"
#include "heddle/core/functions/math/reduce.h"
#include "heddle/core/functions/math/sort.h"
#include "heddle/core/functions/shape/create.h"
#include "heddle/core/functions/shape/index.h"
#include "heddle/core/functions/shape/movement.h"

namespace heddle {

using build::positions;
using build::product;

namespace {

// Whether an element of the ordered row comes before the value: below it, or not above it.
Tensor before(const Tensor& element, const Tensor& value, bool right) {
  const Tensor less = right ? element <= value : element < value;
  if (!is_float(element.dtype())) return less;
  return right ? less || isnan(value) : less || (isnan(value) && !isnan(element));
}

// rows (B, n), values (B, m): (B, m) i32. Long rows by bisection from the highest bit, without branches.
Tensor count_before(const Tensor& rows, const Tensor& values, bool right) {
  const int64_t batch = rows.dim(0), n = rows.dim(1), m = values.dim(1);
  if (n <= 64) {
    const Shape grid{batch, m, n};
    return cast(sum(before(expand(reshape(rows, Shape{batch, 1, n}), grid),
                           expand(reshape(values, Shape{batch, m, 1}), grid), right),
                    {2}),
                DType::i32);
  }
  Tensor at = full(values.shape(), 0, DType::i32, &values.device());
  for (auto step = std::bit_floor(static_cast<uint64_t>(n)); step > 0; step /= 2) {
    const Tensor next = at + static_cast<double>(step);
    const Tensor element = gather(rows, 1, minimum(next, static_cast<double>(n)) - 1);
    at = where(next <= static_cast<double>(n) && before(element, values, right), next, at);
  }
  return at;
}

}  // namespace

Tensor searchsorted(const Tensor& sorted, const Tensor& values, bool right, Caller caller) {
  const CallerScope scope(caller);
  build::check_device(sorted, values, "searchsorted");
  bool fits = sorted.rank() == 1 || (sorted.rank() > 1 && sorted.rank() == values.rank());
  for (int i = 0; fits && sorted.rank() > 1 && i < sorted.rank() - 1; ++i) fits = sorted.dim(i) == values.dim(i);
  if (!fits) {
    throw ShapeError(fmt::format(
        "[searchsorted] the sorted rows are a vector, or have the leading axes of the values; got {} and {}",
        sorted.shape().str(), values.shape().str()));
  }
  DType t = promote(sorted.dtype(), values.dtype());
  if (t == DType::boolean) t = DType::i32;
  if (values.numel() == 0) return zeros(values.shape(), DType::i64, &values.device());
  const int64_t n = sorted.dim(-1), batch = product(sorted.shape(), 0, sorted.rank() - 1);
  const Tensor found = count_before(reshape(cast(sorted, t), Shape{batch, n}),
                                    reshape(cast(values, t), Shape{batch, values.numel() / batch}), right);
  return cast(reshape(found, values.shape()), DType::i64);
}
Tensor bucketize(const Tensor& x, const Tensor& boundaries, bool right, Caller caller) {
  const CallerScope scope(caller);
  if (boundaries.rank() != 1)
    throw ShapeError(fmt::format("[bucketize] boundaries are a vector; got {}; searchsorted() takes rows",
                                 boundaries.shape().str()));
  return searchsorted(boundaries, x, right);
}

Unique unique(TensorArg argument) {
  const CallerScope scope(argument.caller);
  const Tensor& x = argument.tensor;
  DeviceContext& device = x.device();
  const int64_t n = x.numel();
  if (n == 0)
    return {reshape(x, Shape{0}), zeros(x.shape(), DType::i64, &device), zeros(Shape{0}, DType::i64, &device)};
  const Ordered order = sort(reshape(x, Shape{n}));
  const Tensor changed = ne(slice(order.values, 0, {.start = 1}), slice(order.values, 0, {.stop = n - 1}));
  const Tensor group = n == 1 ? zeros(Shape{1}, DType::i64, &device)
                              : cumsum(pad(cast(changed, DType::i32), {{1, 0}}), 0);  // of each ordered element
  const auto count = static_cast<int64_t>(slice(group, 0, {.start = n - 1}).item(current_caller())) + 1;
  const Tensor ends = searchsorted(group, cast(positions(Shape{count}, 0, device), DType::i64), true);
  const Tensor starts = pad(slice(ends, 0, {.stop = count - 1}), {{1, 0}});
  return {take(order.values, starts), reshape(take(group, argsort(order.indices)), x.shape()), ends - starts};
}

Tensor isin(TensorArg argument, const Tensor& elements) {
  const CallerScope scope(argument.caller);
  const Tensor& x = argument.tensor;
  build::check_device(x, elements, "isin");
  const int64_t n = elements.numel();
  DType t = promote(x.dtype(), elements.dtype());
  if (t == DType::boolean) t = DType::i32;
  if (n == 0 || x.numel() == 0) return zeros(x.shape(), DType::boolean, &x.device());
  const Tensor flat = reshape(cast(x, t), Shape{x.numel()}), list = reshape(cast(elements, t), Shape{n});
  if (n <= 64) return reshape(sum(eq(unsqueeze(flat, 1), unsqueeze(list, 0)), {1}) > 0, x.shape());
  const Tensor ordered = sort(list).values;
  const Tensor at = searchsorted(ordered, flat);
  return reshape(at < static_cast<double>(n) && eq(take(ordered, at), flat), x.shape());
}

}  // namespace heddle
