// Rotary embedding, ALiBi, sinusoidal positions.
#include "heddle/core/functions/shape/positions.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>

#include "heddle/core/functions/build_shape.h"
#include "heddle/core/functions/math/cast.h"
#include "heddle/core/functions/math/elementwise.h"
#include "heddle/core/functions/shape/movement.h"
#include "heddle/core/functions/shape/shape.h"

namespace heddle {
namespace {

// (pairs): base^(-2i / d).
Tensor frequencies(int64_t pairs, double base, DType t, DeviceContext& device) {
  const Tensor i = cast(build::positions(Shape{pairs}, 0, device), t);
  return exp(i * (-std::log(base) / static_cast<double>(pairs)));
}

void check_base(const char* op, double base) {
  if (!(base > 0) || std::isinf(base))
    throw ValueError(fmt::format("[{}] base is {}; it must be finite and positive", op, base));
}

}  // namespace

Tensor rotary_embedding(const Tensor& given, const RotaryOptions& how, Caller caller) {
  const CallerScope scope(caller);
  build::check_rank("rotary_embedding", given, 2);
  check_base("rotary_embedding", how.base);
  if (given.dim(-1) == 0) return build::as_float(given);
  const int64_t width = given.dim(-1), d = how.dims == 0 ? width : how.dims;
  if (d < 2 || d % 2 != 0 || d > width)
    throw ShapeError(
        fmt::format("[rotary_embedding] {} of x {} are turned; an even number up to the last axis is needed", d,
                    given.shape().str()));
  const Tensor in = build::as_float(given), x = build::widen(in);
  const Shape before = x.shape().without(x.rank() - 1);
  Tensor at = how.positions;
  if (at.defined()) {
    build::check_device(x, at, "rotary_embedding");
    if (!build::broadcasts_to(at.shape(), before))
      throw ShapeError(
          fmt::format("[rotary_embedding] positions {} do not broadcast to {}", at.shape().str(), before.str()));
  } else {
    at = build::positions(Shape{x.dim(-2)}, 0, x.device());
  }
  const Tensor angle =
      unsqueeze(cast(at, x.dtype()), -1) * frequencies(d / 2, how.base, x.dtype(), x.device());  // (..., d / 2)
  const Tensor c = cos(angle), s = sin(angle);
  const auto part = [&](int64_t start, int64_t stop, int64_t step) {
    return slice(x, -1, {.start = start, .stop = stop, .step = step});
  };
  const Tensor a = how.interleaved ? part(0, d, 2) : part(0, d / 2, 1),
               b = how.interleaved ? part(1, d, 2) : part(d / 2, d, 1);
  const Tensor left = a * c - b * s, right = a * s + b * c;
  const Tensor turned =
      how.interleaved ? reshape(stack({left, right}, -1), x.shape().with(x.rank() - 1, d)) : concat({left, right}, -1);
  return cast(d == width ? turned : concat({turned, part(d, width, 1)}, -1), in.dtype());
}

Tensor alibi_bias(int64_t heads, int64_t queries, int64_t keys, DeviceContext* device, Caller caller) {
  const CallerScope scope(caller);
  if (heads < 1 || queries < 0 || keys < 0)
    throw ValueError(
        fmt::format("[alibi_bias] {} heads, {} queries, {} keys; there must be a head and no negative number", heads,
                    queries, keys));
  DeviceContext& target = build::device_of(device);
  const Shape shape{heads, queries, keys};
  const auto power = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(heads)));
  // The heads beyond a power of two take every other slope of twice as many.
  const Tensor h = cast(build::positions(Shape{heads, 1, 1}, 0, target), DType::f32);
  const Tensor step = where(h < static_cast<double>(power), (h + 1) * (8.0 / static_cast<double>(power)),
                            (2 * (h - static_cast<double>(power)) + 1) * (4.0 / static_cast<double>(power)));
  const Tensor distance = abs(build::positions(shape, 1, target) + static_cast<double>(keys - queries) -
                              build::positions(shape, 2, target));
  return -exp2(-step) * cast(distance, DType::f32);
}

Tensor sinusoidal_positions(int64_t length, int64_t width, double base, DeviceContext* device, Caller caller) {
  const CallerScope scope(caller);
  check_base("sinusoidal_positions", base);
  if (length < 0 || width < 2 || width % 2 != 0)
    throw ValueError(fmt::format("[sinusoidal_positions] {} positions of width {}; the width must be even and positive",
                                 length, width));
  DeviceContext& target = build::device_of(device);
  const Tensor at = cast(build::positions(Shape{length, 1}, 0, target), DType::f32);
  const Tensor angle = at * frequencies(width / 2, base, DType::f32, target);
  return reshape(stack({sin(angle), cos(angle)}, -1), Shape{length, width});
}

}  // namespace heddle
