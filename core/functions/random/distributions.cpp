// Random numbers of more distributions, composed of uniform ones.
#include "heddle/core/functions/random/distributions.h"

#include <fmt/format.h>

#include <cmath>
#include <numbers>

#include "heddle/core/functions/build.h"
#include "heddle/core/functions/math/cast.h"
#include "heddle/core/functions/math/elementwise.h"
#include "heddle/core/functions/math/reduce.h"
#include "heddle/core/functions/math/sort.h"
#include "heddle/core/functions/nn/softmax.h"
#include "heddle/core/functions/random/random.h"
#include "heddle/core/functions/shape/create.h"
#include "heddle/core/functions/shape/movement.h"

namespace heddle {
namespace {

void check_scale(const char* op, const char* name, double value) {
  if (!(value > 0) || std::isinf(value))
    throw ValueError(fmt::format("[{}] the {} is {}; it must be finite and positive", op, name, value));
}

void check_finite(const char* op, const char* name, double value) {
  if (!std::isfinite(value)) throw ValueError(fmt::format("[{}] the {} is {}; it must be finite", op, name, value));
}

// f32 in (0, 1): uniform() gives multiples of 2^-24, 0 among them.
Tensor open_uniform(const Shape& shape, DeviceContext& device, Generator* generator) {
  return maximum(uniform(shape, 0, 1, &device, generator), 0x1p-25);
}

Tensor standard_exponential(const Shape& shape, DeviceContext& device, Generator* generator) {
  return -log1p(-open_uniform(shape, device, generator));
}

Tensor standard_gumbel(const Shape& shape, DeviceContext& device, Generator* generator) {
  return -log(standard_exponential(shape, device, generator));
}

Tensor scaled(const Tensor& x, double location, double scale) {
  const Tensor wide = scale == 1 ? x : x * scale;
  return location == 0 ? wide : wide + location;
}

// 24 random bits.
Tensor random_bits(const Shape& shape, DeviceContext& device, Generator* generator) {
  return cast(uniform(shape, 0, 1, &device, generator) * 0x1p24, DType::i64);
}

// Logits with the axis, in f32.
struct Logits {
  Tensor values;
  int axis;
};
Logits checked_logits(const char* op, const Tensor& logits, int axis) {
  if (!is_float(logits.dtype()))
    throw DTypeError(fmt::format("[{}] needs floating logits, not {}; cast them first", op, name_of(logits.dtype())));
  if (logits.rank() == 0) throw ShapeError(fmt::format("[{}] a scalar has no axis of classes", op));
  const int at = normalize_axis(axis, logits.rank(), op);
  if (logits.dim(at) == 0)
    throw ShapeError(fmt::format("[{}] axis {} of {} has no classes", op, at, logits.shape().str()));
  return {build::widen(logits), at};
}

}  // namespace

Tensor randint(int64_t low, int64_t high, const Shape& shape, DeviceContext* device, Generator* generator,
               Caller caller) {
  const CallerScope scope(caller);
  if (!(low < high)) throw ValueError(fmt::format("[randint] the range [{}, {}) is empty", low, high));
  const double count = static_cast<double>(high) - static_cast<double>(low);
  if (count > 0x1p40 || std::abs(static_cast<double>(low)) > 0x1p52)
    throw ValueError(fmt::format("[randint] the range [{}, {}) is too wide; at most 2^40 numbers", low, high));
  DeviceContext& target = build::device_of(device);
  const Tensor upper = random_bits(shape, target, generator) * 0x1p24;
  return mod(upper + random_bits(shape, target, generator), count) + static_cast<double>(low);
}

Tensor randperm(int64_t count, DeviceContext* device, Generator* generator, Caller caller) {
  const CallerScope scope(caller);
  if (count < 0) throw ValueError(fmt::format("[randperm] the count is {}; it must not be negative", count));
  return argsort(uniform({count}, 0, 1, device, generator), 0);
}

Tensor exponential(const Shape& shape, double rate, DeviceContext* device, Generator* generator, Caller caller) {
  const CallerScope scope(caller);
  check_scale("exponential", "rate", rate);
  return scaled(standard_exponential(shape, build::device_of(device), generator), 0, 1 / rate);
}

Tensor gumbel(const Shape& shape, double location, double scale, DeviceContext* device, Generator* generator,
              Caller caller) {
  const CallerScope scope(caller);
  check_finite("gumbel", "location", location);
  check_scale("gumbel", "scale", scale);
  return scaled(standard_gumbel(shape, build::device_of(device), generator), location, scale);
}

Tensor laplace(const Shape& shape, double location, double scale, DeviceContext* device, Generator* generator,
               Caller caller) {
  const CallerScope scope(caller);
  check_finite("laplace", "location", location);
  check_scale("laplace", "scale", scale);
  const Tensor v = open_uniform(shape, build::device_of(device), generator) - 0.5;
  return scaled(-sign(v) * log1p(-2.0 * abs(v)), location, scale);
}

Tensor cauchy(const Shape& shape, double location, double scale, DeviceContext* device, Generator* generator,
              Caller caller) {
  const CallerScope scope(caller);
  check_finite("cauchy", "location", location);
  check_scale("cauchy", "scale", scale);
  return scaled(tan(std::numbers::pi * (open_uniform(shape, build::device_of(device), generator) - 0.5)), location,
                scale);
}

Tensor log_normal(const Shape& shape, double mean, double deviation, DeviceContext* device, Generator* generator,
                  Caller caller) {
  const CallerScope scope(caller);
  check_finite("log_normal", "mean", mean);
  check_scale("log_normal", "deviation", deviation);
  return exp(normal(shape, mean, deviation, device, generator));
}

Tensor truncated_normal(const Shape& shape, double mean, double deviation, double low, double high,
                        DeviceContext* device, Generator* generator, Caller caller) {
  const CallerScope scope(caller);
  check_finite("truncated_normal", "mean", mean);
  check_scale("truncated_normal", "deviation", deviation);
  if (!(low < high)) throw ValueError(fmt::format("[truncated_normal] the range [{}, {}] is empty", low, high));
  const double wide = deviation * std::numbers::sqrt2;
  const double first = std::erf((low - mean) / wide), last = std::erf((high - mean) / wide);
  if (!(last - first > 0x1p-18)) {
    throw ValueError(fmt::format("[truncated_normal] nearly nothing of mean {} and deviation {} lies in [{}, {}]", mean,
                                 deviation, low, high));
  }
  const Tensor u = open_uniform(shape, build::device_of(device), generator) * (last - first) + first;
  // Where rounding reaches 1 the inverse is infinite.
  return clamp(erfinv(clamp(u, -1 + 0x1p-24, 1 - 0x1p-24)) * wide + mean, low, high);
}

Tensor categorical(const Tensor& logits, int axis, Generator* generator, Caller caller) {
  const CallerScope scope(caller);
  const auto [values, at] = checked_logits("categorical", logits, axis);
  return argmax(values + standard_gumbel(values.shape(), values.device(), generator), at);
}

Tensor multinomial(const Tensor& weights, int64_t count, bool replacement, Generator* generator, Caller caller) {
  const CallerScope scope(caller);
  const auto [values, at] = checked_logits("multinomial", weights, -1);
  const int64_t classes = values.dim(at);
  if (count < 1) throw ValueError(fmt::format("[multinomial] the count is {}; it must be positive", count));
  if (!replacement && count > classes) {
    throw ValueError(fmt::format(
        "[multinomial] {} different classes of {} are asked for; replacement = true draws a class more than once",
        count, classes));
  }
  const Tensor logits = log(values);
  if (!replacement)
    return topk(logits + standard_gumbel(logits.shape(), logits.device(), generator), count, at).indices;
  Shape shape = values.shape().with(at, count);
  shape.push_back(classes);
  return argmax(unsqueeze(logits, at) + standard_gumbel(shape, logits.device(), generator), at + 1);
}

Tensor gumbel_softmax(const Tensor& logits, double temperature, bool hard, int axis, Generator* generator,
                      Caller caller) {
  const CallerScope scope(caller);
  check_scale("gumbel_softmax", "temperature", temperature);
  const auto [values, at] = checked_logits("gumbel_softmax", logits, axis);
  const Tensor soft =
      softmax((values + standard_gumbel(values.shape(), values.device(), generator)) * (1 / temperature), at);
  if (!hard) return cast(soft, logits.dtype());
  Shape places;
  for (int i = 0; i < values.rank(); ++i) places.push_back(i == at ? values.dim(at) : 1);
  const Tensor chosen =
      argmax(soft, at, true) ==
      reshape(arange(0, static_cast<double>(values.dim(at)), 1, DType::i64, &values.device()), places);
  // Exactly one-hot: the softmax less itself is 0.
  return cast(cast(stop_gradient(chosen), values.dtype()) + (soft - stop_gradient(soft)), logits.dtype());
}

}  // namespace heddle
