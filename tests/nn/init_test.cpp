// Initialisers: the stream they draw from, their bounds and moments.
#include "heddle/nn/init.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "heddle/core/device/context.h"
#include "heddle/core/graph/philox.h"
#include "heddle/nn/layers.h"
#include "tests/nn/support.h"

namespace heddle::tests {
namespace {

struct Moments {
  double mean = 0, deviation = 0, low = INFINITY, high = -INFINITY;
};

Moments moments(const Tensor& x) {
  Moments m;
  const Values v = x.to_doubles();
  for (const double e : v) {
    m.mean += e / static_cast<double>(v.size());
    m.low = std::min(m.low, e);
    m.high = std::max(m.high, e);
  }
  for (const double e : v) m.deviation += (e - m.mean) * (e - m.mean) / static_cast<double>(v.size());
  m.deviation = std::sqrt(m.deviation);
  return m;
}

Tensor empty(const Shape& shape) { return zeros(shape, DType::f32, &reference()); }

TEST(Init, Constants) {
  Tensor x = empty(Shape{3});
  nn::init::ones(x);
  EXPECT_EQ(x.to_doubles(), Values(3, 1));
  nn::init::constant(x, -2.5);
  EXPECT_EQ(x.to_doubles(), Values(3, -2.5));
  nn::init::zeros(x);
  EXPECT_EQ(x.to_doubles(), Values(3, 0));
}

TEST(Init, UniformIsThePhiloxStream) {
  Generator generator{0x1234567890abcdefull, 41};
  Tensor x = empty(Shape{2, 5});
  nn::init::uniform(x, -2, 6, &generator);
  EXPECT_EQ(generator.offset, 42u);
  const Values v = x.to_doubles();
  for (size_t i = 0; i < v.size(); ++i) {
    EXPECT_EQ(v[i],
              static_cast<double>(static_cast<float>(-2 + 8.0 * philox_uniform({0x90abcdefu, 0x12345678u, 41, 0}, i))));
  }
}

TEST(Init, NormalIsThatOfTheFunction) {
  Generator a{9, 3}, b{9, 3};
  Tensor x = empty(Shape{101});
  nn::init::normal(x, 1, 2, &a);
  const Values found = x.to_doubles();
  const Values expected = heddle::normal(Shape{101}, 1, 2, &reference(), &b).to_doubles();
  EXPECT_EQ(a.offset, b.offset);
  for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-5);
}

TEST(Init, EqualSeedsGiveEqualWeights) {
  manual_seed(77);
  const nn::Linear a(13, 7, {.device = reference()});
  manual_seed(77);
  const nn::Linear b(13, 7, {.device = reference()});
  const nn::Linear c(13, 7, {.device = reference()});
  EXPECT_EQ(a.weight.to_bytes(), b.weight.to_bytes());
  EXPECT_EQ(a.bias.to_bytes(), b.bias.to_bytes());
  EXPECT_NE(b.weight.to_bytes(), c.weight.to_bytes());
}

TEST(Init, EqualOnEveryDevice) {
  for (const char* id : {"opencl:0", "vulkan:0"}) {
    DeviceContext* there = nullptr;
    try {
      there = &device(id);
    } catch (const DeviceUnavailable& error) {
      GTEST_SKIP() << error.what();
    }
    Generator one{3, 0}, two{3, 0};
    EXPECT_EQ(nn::Linear(31, 5, {.device = reference(), .generator = &one}).weight.to_bytes(),
              nn::Linear(31, 5, {.device = there, .generator = &two}).weight.to_bytes())
        << id;
  }
}

TEST(Init, MomentsAndBounds) {
  Generator generator{1, 0};
  Tensor w = empty(Shape{120, 200});  // fan_in 200, fan_out 120
  const auto near = [&](double deviation, double bound) {
    const Moments m = moments(w);
    EXPECT_NEAR(m.mean, 0, 0.02 * deviation);
    EXPECT_NEAR(m.deviation, deviation, 0.015 * deviation);
    if (bound > 0) {
      EXPECT_LE(m.high, bound);
      EXPECT_GE(m.low, -bound);
      EXPECT_GT(m.high, 0.99 * bound);
    }
  };
  nn::init::xavier_uniform(w, 1, &generator);
  near(std::sqrt(2 / 320.0), std::sqrt(6 / 320.0));
  nn::init::xavier_normal(w, 2, &generator);
  near(2 * std::sqrt(2 / 320.0), 0);
  nn::init::kaiming_uniform(w, 0, nn::init::Fan::in, &generator);
  near(std::sqrt(2 / 200.0), std::sqrt(6 / 200.0));
  nn::init::kaiming_uniform(w, std::sqrt(5.0), nn::init::Fan::in, &generator);
  near(1 / std::sqrt(3 * 200.0), 1 / std::sqrt(200.0));
  nn::init::kaiming_normal(w, 0, nn::init::Fan::out, &generator);
  near(std::sqrt(2 / 120.0), 0);
}

TEST(Init, FansCountTheField) {
  const nn::init::Fans fans = nn::init::fans_of(Shape{16, 3, 5, 5});
  EXPECT_EQ(fans.in, 75);
  EXPECT_EQ(fans.out, 400);
}

TEST(Init, KeepsDtypeDeviceAndGradient) {
  Tensor x = zeros(Shape{4}, DType::f16, &reference());
  x.set_requires_grad();
  nn::init::constant(x, 1.5);
  EXPECT_EQ(x.dtype(), DType::f16);
  EXPECT_TRUE(x.requires_grad());
  EXPECT_EQ(x.to_doubles(), Values(4, 1.5));
}

TEST(Init, Errors) {
  Tensor x = empty(Shape{3}), i = zeros(Shape{2, 2}, DType::i32, &reference());
  expect_error<ShapeError>([&] { nn::init::xavier_uniform(x); }, {"(3)", "rank 2"});
  expect_error<ValueError>([&] { nn::init::uniform(x, 2, 1); }, {"low 2", "high 1"});
  expect_error<ValueError>([&] { nn::init::normal(x, 0, -1); }, {"-1", "negative"});
  expect_error<ValueError>([&] { nn::init::uniform(x, std::nan(""), 1); }, {"nan"});
  Tensor square = empty(Shape{3, 3});
  expect_error<ValueError>([&] { nn::init::xavier_uniform(square, std::nan("")); },
                           {"[init::xavier_uniform] gain", "nan"});
  expect_error<DTypeError>([&] { nn::init::uniform(i, 0, 1); }, {"i32"});
}

}  // namespace
}  // namespace heddle::tests
