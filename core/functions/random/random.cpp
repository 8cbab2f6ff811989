#include "heddle/core/functions/random/random.h"

#include <fmt/format.h>

#include <cmath>

#include "heddle/core/functions/build.h"
#include "heddle/core/functions/math/cast.h"
#include "heddle/core/functions/math/elementwise.h"
#include "heddle/core/functions/random/key.h"
#include "heddle/core/op/primitives.h"

namespace heddle {
namespace {

// f32 in [0, 1)
Tensor draw(const Shape& shape, DeviceContext& device, Generator* generator) {
  return Tensor(make_node(ops::random_uniform_op, {build::next_key(device, generator)}, {}, shape, DType::f32));
}

void check_probability(double p, const char* op) {
  if (!(p >= 0 && p <= 1))
    throw ValueError(fmt::format("[{}] the probability is {}; it must be between 0 and 1", op, p));
}

}  // namespace

Tensor uniform(const Shape& shape, double low, double high, DeviceContext* device, Generator* generator,
               Caller caller) {
  const CallerScope scope(caller);
  if (!(low <= high) || std::isinf(low) || std::isinf(high)) {
    throw ValueError(fmt::format("[uniform] the range [{}, {}) is empty or infinite", low, high));
  }
  const Tensor u = draw(shape, build::device_of(device), generator);
  const Tensor scaled = high - low == 1 ? u : u * (high - low);
  return low == 0 ? scaled : scaled + low;
}

// Box-Muller; 1 - u lies in (0, 1], where the logarithm is finite.
Tensor normal(const Shape& shape, double mean, double stddev, DeviceContext* device, Generator* generator,
              Caller caller) {
  const CallerScope scope(caller);
  if (!(stddev >= 0) || std::isinf(stddev))
    throw ValueError(fmt::format("[normal] the standard deviation is {}; it must be finite and not negative", stddev));
  DeviceContext& target = build::device_of(device);
  const Tensor radius = sqrt(log(1.0 - draw(shape, target, generator)) * -2.0);
  const Tensor angle = cos(draw(shape, target, generator) * 6.283185307179586);
  const Tensor standard = radius * angle;
  const Tensor scaled = stddev == 1 ? standard : standard * stddev;
  return mean == 0 ? scaled : scaled + mean;
}

Tensor bernoulli(const Shape& shape, double p, DeviceContext* device, Generator* generator, Caller caller) {
  const CallerScope scope(caller);
  check_probability(p, "bernoulli");
  return cast(draw(shape, build::device_of(device), generator) < p, DType::f32);
}

Tensor dropout(const Tensor& x, double p, bool training, Generator* generator, Caller caller) {
  const CallerScope scope(caller);
  check_probability(p, "dropout");
  if (!is_float(x.dtype()))
    throw DTypeError(fmt::format("[dropout] needs a floating tensor, not {}; cast it first", name_of(x.dtype())));
  if (!training || p == 0) return x;
  const double scale = p < 1 ? 1 / (1 - p) : 0;
  return where(draw(x.shape(), x.device(), generator) >= p, x * scale, 0.0);
}

}  // namespace heddle
