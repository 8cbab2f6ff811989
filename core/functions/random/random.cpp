// Random numbers: every draw is a function of (seed, offset), so that the same seed gives the same numbers on every
// device.
#include <fmt/format.h>

#include <cmath>

#include "heddle/core/functions/build.h"
#include "heddle/core/graph/loop.h"
#include "heddle/core/graph/trace.h"
#include "heddle/core/graph/transform.h"
#include "heddle/core/op/primitives.h"

namespace heddle {

namespace {

// Of nested loops the number among all iterations; undefined outside of a loop.
Tensor number_of_iteration(BodyTrace* loop) {
  if (loop == nullptr) return {};
  const Tensor outer = number_of_iteration(loop->outer());
  if (loop->length() == 0) return outer;
  return outer.defined() ? outer * static_cast<double>(loop->length()) + loop->iteration() : loop->iteration();
}

}  // namespace

NodePtr build::next_key(DeviceContext& device, Generator* generator) {
  const auto next = [&g = generator ? *generator : default_generator()] {
    HostValue key;
    key.words = {static_cast<uint32_t>(g.seed), static_cast<uint32_t>(g.seed >> 32), static_cast<uint32_t>(g.offset),
                 static_cast<uint32_t>(g.offset >> 32)};
    ++g.offset;
    return key;
  };
  NodePtr leaf = make_host_leaf(device, next(), Shape{4}, DType::i32);
  if (trace::any()) trace::source(leaf, next);
  ExampleScope::note_key(leaf);
  const Tensor iteration = number_of_iteration(BodyTrace::current());
  if (!iteration.defined()) return leaf;
  // The highest word counts the iterations: no program draws 2^32 times under one seed.
  const Tensor highest = cast(eq(arange(0, 4, 1, DType::i32, &device), 3.0), DType::i32);
  return (Tensor(leaf) + highest * iteration).node();
}

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

Generator& default_generator() {
  static Generator generator;
  return generator;
}

void manual_seed(uint64_t seed) { default_generator() = {seed, 0}; }

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
