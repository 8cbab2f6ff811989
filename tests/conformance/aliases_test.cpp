// Writes to tensors whose storage others see: assign() and optimizers write in place where nobody can tell, so every
// result is that of copying.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <optional>

#include "heddle/autograd/autograd.h"
#include "heddle/core/compile/compile.h"
#include "heddle/core/device/context.h"
#include "heddle/core/functions/functions.h"
#include "heddle/nn/nn.h"
#include "tests/support/devices.h"

namespace heddle {
namespace {

using Values = std::vector<double>;

class Aliases : public ::testing::TestWithParam<std::string> {
 protected:
  DeviceContext& dev() const { return device(GetParam()); }
  // Stored, so that a write may be in place: 0, 1, 2, ... in f32.
  Tensor counted(const Shape& shape, double start = 0) const {
    std::vector<float> data(static_cast<size_t>(shape.numel()));
    for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<float>(start + static_cast<double>(i));
    return Tensor::from_vector(data, shape, &dev());
  }
};

// A new value from the old one; what a plain program with two buffers gives.
struct Rewrite {
  const char* name;
  std::function<Tensor(const Tensor& x)> value;
  std::function<double(const Values& x, int64_t row, int64_t column)> element;  // of (n, n)
};
constexpr int64_t n = 37;

const std::vector<Rewrite>& rewrites() {
  static const std::vector<Rewrite> all = {
      {"reversed",
       [](const Tensor& x) {
         return flip(x, {0, 1});
       },
       [](const Values& x, int64_t r, int64_t c) { return x[static_cast<size_t>((n - 1 - r) * n + n - 1 - c)]; }},
      {"transposed", [](const Tensor& x) { return transpose(x); },
       [](const Values& x, int64_t r, int64_t c) { return x[static_cast<size_t>(c * n + r)]; }},
      {"shifted",
       [](const Tensor& x) {
         return concat({slice(x, 0, {.start = 1}), slice(x, 0, {.stop = 1})}, 0);
       },
       [](const Values& x, int64_t r, int64_t c) { return x[static_cast<size_t>((r + 1) % n * n + c)]; }},
      {"broadcast", [](const Tensor& x) { return expand(slice(x, 0, {.start = 5, .stop = 6}), x.shape()); },
       [](const Values& x, int64_t, int64_t c) { return x[static_cast<size_t>(5 * n + c)]; }},
      {"strided",
       [](const Tensor& x) {
         return concat({slice(x, 1, {.start = 0, .step = 2}), slice(x, 1, {.start = 1, .step = 2})}, 1);
       },
       [](const Values& x, int64_t r, int64_t c) {
         return x[static_cast<size_t>(r * n + (c <= n / 2 ? 2 * c : 2 * (c - n / 2) - 1))];
       }},
      {"computed from neighbours", [](const Tensor& x) { return x + flip(x, {0}) * 2.0 - transpose(x); },
       [](const Values& x, int64_t r, int64_t c) {
         return x[static_cast<size_t>(r * n + c)] + 2 * x[static_cast<size_t>((n - 1 - r) * n + c)] -
                x[static_cast<size_t>(c * n + r)];
       }},
      {"less its row's sum", [](const Tensor& x) { return x - sum(x, {1}, true); },
       [](const Values& x, int64_t r, int64_t c) {
         double total = 0;
         for (int64_t k = 0; k < n; ++k) total += x[static_cast<size_t>(r * n + k)];
         return x[static_cast<size_t>(r * n + c)] - total;
       }},
      {"gathered", [](const Tensor& x) { return take(x, mod(arange(0, n, 1, DType::i32, &x.device()) * 5, n), 0); },
       [](const Values& x, int64_t r, int64_t c) { return x[static_cast<size_t>(r * 5 % n * n + c)]; }},
  };
  return all;
}

Values after(const Rewrite& how, const Values& x) {
  Values made(x.size());
  for (int64_t r = 0; r < n; ++r) {
    for (int64_t c = 0; c < n; ++c) made[static_cast<size_t>(r * n + c)] = how.element(x, r, c);
  }
  return made;
}

TEST_P(Aliases, ValueReadsItsTarget) {
  for (const Rewrite& how : rewrites()) {
    for (const bool eager : {false, true}) {
      std::optional<EagerScope> scope;
      if (eager) scope.emplace();
      Tensor x = counted({n, n});
      Values expected = x.to_doubles();
      x.assign(how.value(x));
      expected = after(how, expected);
      EXPECT_EQ(x.to_doubles(), expected) << how.name << (eager ? ", eager" : "");
    }
  }
}

TEST_P(Aliases, ChainsOfWritesInOneRegion) {
  for (size_t i = 0; i < rewrites().size(); ++i) {
    for (const size_t step : {size_t{1}, size_t{3}}) {
      const Rewrite &first = rewrites()[i], &second = rewrites()[(i + step) % rewrites().size()];
      Tensor x = counted({n, n});
      const Values expected = after(second, after(first, x.to_doubles()));
      x.assign(first.value(x));
      x.assign(second.value(x));
      EXPECT_EQ(x.to_doubles(), expected) << first.name << ", then " << second.name;
    }
  }
}

TEST_P(Aliases, Compiled) {
  for (const Rewrite& how : rewrites()) {
    Tensor x = counted({n, n});
    Values expected = x.to_doubles();
    const auto step = compile([&] {
      x.assign(how.value(x));
      return sum(slice(x, 0, {.stop = 1}));
    });
    for (int i = 0; i < 3; ++i) {
      expected = after(how, expected);
      double total = 0;
      for (int64_t c = 0; c < n; ++c) total += expected[static_cast<size_t>(c)];
      EXPECT_NEAR(step().item(), total, 1e-6 * std::abs(total)) << how.name << ", call " << i;
    }
    const Values found = x.to_doubles();
    for (size_t i = 0; i < found.size(); ++i)
      ASSERT_NEAR(found[i], expected[i], 1e-6 * std::abs(expected[i])) << how.name << " at " << i;
  }
}

// Views that were taken before keep what they saw, whether they were looked at, are pending, or hold the storage alone.
TEST_P(Aliases, OldViewsKeepTheirValues) {
  Tensor x = counted({6, 4});
  const Values old = x.to_doubles();
  const Tensor seen = slice(x, 0, {.start = 2, .stop = 4}), pending = transpose(x), doubled = x * 2,
               detached = x.detach(), flat = reshape(x, {24});
  const Values rows = seen.to_doubles();
  x.assign(flip(x, {0}) + 100);
  EXPECT_EQ(x.to_doubles()[0], 120);
  EXPECT_EQ(seen.to_doubles(), rows);
  EXPECT_EQ(pending.to_doubles()[1], 4);
  EXPECT_EQ(doubled.to_doubles()[23], 46);
  EXPECT_EQ(detached.to_doubles(), old);
  EXPECT_EQ(flat.to_doubles(), old);
}

// A view is a tensor of its own: writing to it does not write to what it was cut from.
TEST_P(Aliases, WritesToViews) {
  for (const bool looked_at : {false, true}) {
    Tensor x = counted({8});
    const Values old = x.to_doubles();
    Tensor view = slice(x, 0, {.start = 2, .stop = 6});
    if (looked_at) view.to_doubles();
    const Tensor reader = x + 1, other = slice(x, 0, {.start = 0, .stop = 4});
    view.assign(other * 10);
    EXPECT_EQ(view.to_doubles(), (Values{0, 10, 20, 30}));
    EXPECT_EQ(x.to_doubles(), old);
    EXPECT_EQ(reader.to_doubles()[3], 4);
    view.assign(flip(view, {0}));
    EXPECT_EQ(view.to_doubles(), (Values{30, 20, 10, 0}));
    EXPECT_EQ(other.to_doubles(), (Values{0, 1, 2, 3}));
  }
}

TEST_P(Aliases, SwapsAndOverlappingSlices) {
  Tensor a = counted({5}), b = counted({5}, 10);
  const Tensor kept = a + 0;
  a.assign(b);
  b.assign(kept);
  EXPECT_EQ(a.to_doubles(), (Values{10, 11, 12, 13, 14}));
  EXPECT_EQ(b.to_doubles(), (Values{0, 1, 2, 3, 4}));
  const Tensor buffer = counted({9});
  Tensor left = slice(buffer, 0, {.stop = 6});
  const Tensor right = slice(buffer, 0, {.start = 3});
  left.to_doubles();
  right.to_doubles();  // both on the buffer's storage now
  left.assign(right);
  EXPECT_EQ(left.to_doubles(), (Values{3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(right.to_doubles(), (Values{3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(buffer.to_doubles(), (Values{0, 1, 2, 3, 4, 5, 6, 7, 8}));
}

// The optimizer writes in place; a detached copy and a transposed view of the weight see the old values, a tied use the
// new ones.
TEST_P(Aliases, OptimizersBesideViews) {
  const auto train = [&](bool beside, bool compiled) {
    Tensor w = counted({4, 4}, 1);
    w.set_requires_grad(true);
    const Tensor x = counted({4, 4}, -3) * 0.1;
    nn::SGD optimizer({w}, {.lr = 1e-5, .momentum = 0.9});
    const auto body = [&] {
      optimizer.zero_grad();
      const Tensor loss = mean(square(matmul(matmul(x, w), transpose(w))));  // tied
      backward(loss);
      optimizer.step();
      return loss;
    };
    const auto step = compile(body);
    for (int i = 0; i < 4; ++i) {
      const Tensor before = beside ? w.detach() : Tensor(), turned = beside ? transpose(w.detach()) : Tensor();
      const Values old = beside ? w.to_doubles() : Values();
      const double loss = (compiled ? step() : body()).item();
      EXPECT_TRUE(std::isfinite(loss));
      if (!beside) continue;
      EXPECT_EQ(before.to_doubles(), old);
      EXPECT_EQ(turned.to_doubles()[1], old[4]);
      EXPECT_NE(w.to_doubles(), old);
    }
    return w.to_doubles();
  };
  const Values alone = train(false, false);
  for (const bool compiled : {false, true})
    EXPECT_EQ(train(true, compiled), alone) << (compiled ? "compiled" : "recorded");
}

INSTANTIATE_TEST_SUITE_P(Devices, Aliases, ::testing::ValuesIn(test::value_devices()));

}  // namespace
}  // namespace heddle
