#include "heddle/nn/models/rotary.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "heddle/core/device/context.h"
#include "heddle/core/functions/functions.h"

namespace heddle::nn {

RotaryAngles rotary_angles(const Tensor& positions, int64_t size, double base, const Tensor& factors) {
  DeviceContext* device = &positions.device();
  const auto half = static_cast<double>(size / 2);
  Tensor frequencies = exp(arange(0, half, 1, DType::f32, device) * (-std::log(base) / half));
  if (factors.defined()) frequencies = frequencies / factors.to(*device);
  const Tensor angles = reshape(cast(positions, DType::f32), {positions.dim(0), 1, 1, 1}) * frequencies;
  const Tensor signs = reshape(arange(-1, 2, 2, DType::f32, device), {2, 1});
  return {cos(angles), sin(angles) * signs};
}

Tensor rotated(const Tensor& heads, const RotaryAngles& angles) {
  const int64_t size = 2 * angles.cosines.dim(3);
  if (size < heads.dim(3))
    return concat({rotated(slice(heads, 3, {.start = 0, .stop = size}), angles), slice(heads, 3, {.start = size})}, 3);
  const Tensor halves = reshape(heads, {heads.dim(0), heads.dim(1), heads.dim(2), 2, size / 2});
  return reshape(halves * angles.cosines + flip(halves, {3}) * angles.sines, heads.shape());
}

std::vector<double> rotary_factors(int64_t size, double base, const StretchedWaves& waves) {
  std::vector<double> factors;
  for (int64_t i = 0; i < size / 2; ++i) {
    const double frequency = std::pow(base, -2 * static_cast<double>(i) / static_cast<double>(size));
    const double count = waves.context * frequency / (2 * std::numbers::pi);  // of waves in the context
    const double kept = std::clamp((count - waves.low) / (waves.high - waves.low), 0.0, 1.0);
    factors.push_back(1 / ((1 - kept) / waves.factor + kept));
  }
  return factors;
}

}  // namespace heddle::nn
