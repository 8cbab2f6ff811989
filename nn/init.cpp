#include "heddle/nn/init.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <new>
#include <numbers>
#include <stdexcept>

#include "heddle/core/device/context.h"
#include "heddle/core/graph/node.h"
#include "heddle/core/graph/philox.h"

namespace heddle::nn::init {
namespace {

thread_local bool skipping = false;

// One draw of the generator: its key words, then it advances.
std::array<uint32_t, 4> next_key(Generator* generator) {
  if (skipping) return {};
  Generator& g = generator != nullptr ? *generator : default_generator();
  const uint64_t draw = g.offset++;
  return {static_cast<uint32_t>(g.seed), static_cast<uint32_t>(g.seed >> 32), static_cast<uint32_t>(draw),
          static_cast<uint32_t>(draw >> 32)};
}

// As many as the tensor has.
std::vector<uint8_t> host_bytes(const Tensor& x) {
  uint64_t bytes = 0;
  const bool fits = !__builtin_mul_overflow(static_cast<uint64_t>(x.numel()), uint64_t{size_of(x.dtype())}, &bytes);
  try {
    return std::vector<uint8_t>(fits ? bytes : std::numeric_limits<uint64_t>::max());
  } catch (const std::bad_alloc&) {
  } catch (const std::length_error&) {
  }
  throw OutOfMemory(fmt::format("[init] the host has no memory for {} {}", x.shape().str(), name_of(x.dtype())));
}

// Uploads values in the tensor's dtype and puts them under the same handle; nothing is recorded or computed on the
// device.
template <class F>
void fill(Tensor& x, const F& value_at) {
  if (skipping) return;
  const size_t count = static_cast<size_t>(x.numel());
  std::vector<uint8_t> bytes = host_bytes(x);
  for (size_t i = 0; i < count; ++i) store_element(bytes.data(), x.dtype(), i, value_at(i));
  const bool trained = x.impl()->requires_grad;
  const Tensor value = Tensor::from_bytes(bytes.data(), count, x.dtype(), x.shape(), &x.device());
  x.impl()->set_node(value.node());
  if (trained) x.set_requires_grad();
}

void check_floating(const Tensor& x, const char* who) {
  if (!is_float(x.dtype()))
    throw DTypeError(fmt::format("[init::{}] needs a floating tensor, not {}", who, name_of(x.dtype())));
}

void check_finite(double value, const char* who, const char* what) {
  if (!std::isfinite(value)) throw ValueError(fmt::format("[init::{}] {} is {}; it must be finite", who, what, value));
}

double kaiming_gain(const Tensor& x, double slope, Fan fan, const char* who) {
  check_finite(slope, who, "slope");
  const Fans fans = fans_of(x.shape());
  const int64_t n = fan == Fan::in ? fans.in : fans.out;
  return n == 0 ? 0 : std::sqrt(2.0 / ((1 + slope * slope) * static_cast<double>(n)));
}

double xavier_gain(const Tensor& x, double gain, const char* who) {
  check_finite(gain, who, "gain");
  const Fans fans = fans_of(x.shape());
  const double both = static_cast<double>(fans.in) + static_cast<double>(fans.out);
  return both == 0 ? 0 : gain * std::sqrt(2.0 / both);
}

}  // namespace

SkipScope::SkipScope() : before_(skipping) { skipping = true; }
SkipScope::~SkipScope() { skipping = before_; }

Fans fans_of(const Shape& shape) {
  if (shape.rank() < 2)
    throw ShapeError(fmt::format("[init] fans need a weight of rank 2 or more (out, in, ...), not {}", shape.str()));
  Fans fans{shape[1], shape[0]};
  bool overflow = false;
  for (int axis = 2; axis < shape.rank(); ++axis) {
    overflow = __builtin_mul_overflow(fans.in, shape[axis], &fans.in) || overflow;
    overflow = __builtin_mul_overflow(fans.out, shape[axis], &fans.out) || overflow;
  }
  if (overflow) throw ShapeError(fmt::format("[init] the fans of {} do not fit 64 bits", shape.str()));
  return fans;
}

void constant(Tensor& x, double value) {
  fill(x, [value](size_t) { return value; });
}
void zeros(Tensor& x) { constant(x, 0); }
void ones(Tensor& x) { constant(x, 1); }

void uniform(Tensor& x, double low, double high, Generator* generator) {
  check_floating(x, "uniform");
  check_finite(low, "uniform", "low");
  check_finite(high, "uniform", "high");
  if (low > high) throw ValueError(fmt::format("[init::uniform] low {} is above high {}", low, high));
  const auto key = next_key(generator);
  fill(x, [&](size_t i) { return low + (high - low) * philox_uniform(key, i); });
}

void normal(Tensor& x, double mean, double stddev, Generator* generator) {
  check_floating(x, "normal");
  check_finite(mean, "normal", "mean");
  check_finite(stddev, "normal", "stddev");
  if (stddev < 0) throw ValueError(fmt::format("[init::normal] stddev {} is negative", stddev));
  const auto length = next_key(generator);
  const auto angle = next_key(generator);
  fill(x, [&](size_t i) {
    const double radius = std::sqrt(-2 * std::log1p(-static_cast<double>(philox_uniform(length, i))));  // u < 1: finite
    return mean + stddev * radius * std::cos(2 * std::numbers::pi * philox_uniform(angle, i));
  });
}

void xavier_uniform(Tensor& x, double gain, Generator* generator) {
  const double bound = std::sqrt(3.0) * xavier_gain(x, gain, "xavier_uniform");
  uniform(x, -std::abs(bound), std::abs(bound), generator);
}
void xavier_normal(Tensor& x, double gain, Generator* generator) {
  normal(x, 0, std::abs(xavier_gain(x, gain, "xavier_normal")), generator);
}

void kaiming_uniform(Tensor& x, double slope, Fan fan, Generator* generator) {
  const double bound = std::sqrt(3.0) * kaiming_gain(x, slope, fan, "kaiming_uniform");
  uniform(x, -bound, bound, generator);
}
void kaiming_normal(Tensor& x, double slope, Fan fan, Generator* generator) {
  normal(x, 0, kaiming_gain(x, slope, fan, "kaiming_normal"), generator);
}

}  // namespace heddle::nn::init
