// What is recognised keeps its values and gradients: written-out operations against the reference evaluator, which
// computes them as they were written.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "heddle/core/compile/compile.h"
#include "heddle/core/simplify/passes.h"
#include "heddle/heddle.h"
#include "heddle/nn/conv.h"
#include "heddle/nn/norm.h"
#include "tests/support/coverage.h"
#include "tests/support/devices.h"

namespace heddle {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

Tensor numbers(const Shape& shape, int seed, DeviceContext& device, double scale = 1, DType dtype = DType::f32) {
  std::vector<float> values(static_cast<size_t>(shape.numel()));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(scale * std::sin(0.7 * static_cast<double>(i + 1) * (1 + 0.13 * seed) + seed));
  return cast(Tensor::from_vector(values, shape, &device), dtype);
}

struct Case {
  std::string name;
  std::vector<Shape> shapes;
  std::function<Tensor(const std::vector<Tensor>&)> f;
  DType dtype = DType::f32;
  double tolerance = 2e-5;
  bool everywhere = false;  // else not where compiling takes long
};

// The value, and its gradients by all inputs under a cotangent that is no constant.
std::vector<std::vector<double>> results(const Case& c, DeviceContext& device) {
  std::vector<Tensor> inputs;
  for (size_t i = 0; i < c.shapes.size(); ++i) {
    Tensor x = numbers(c.shapes[i], static_cast<int>(i), device, 1, c.dtype);
    eval_pending();
    x.set_requires_grad(true);
    inputs.push_back(x);
  }
  std::vector<std::vector<double>> all;
  {
    const NoGradScope no_grad;
    all.push_back(c.f(inputs).to_doubles());  // the forward pass alone is another plan than the one beside its gradient
  }
  const Tensor y = c.f(inputs);
  const Tensor loss = sum(cast(y, DType::f32) * numbers(y.shape(), 9, device));
  for (const Tensor& g : grad(loss, inputs)) all.push_back(g.to_doubles());
  all.push_back(y.to_doubles());
  return all;
}

Tensor places(int64_t count, int axis, const Tensor& like) {
  return unsqueeze(arange(0, static_cast<double>(count), 1, DType::i32, &like.device()), axis);
}
Tensor scores(const std::vector<Tensor>& x) { return matmul(x[0], transpose(x[1])) * 0.4; }

std::vector<Case> cases() {
  const std::vector<Shape> qkv{{2, 3, 11, 5}, {2, 3, 11, 5}, {2, 3, 11, 7}};
  const auto hidden_keys = [](const Tensor& s, int64_t keys) { return where(places(keys, 0, s) < 4.0, s, -infinity); };
  return {
      {"attention", qkv, [](const auto& x) { return matmul(softmax(scores(x)), x[2]); }},
      {"attention by hand", qkv,
       [](const auto& x) {
         const Tensor s = scores(x), e = exp(s - max(s, {-1}, true));
         return matmul(e / sum(e, {-1}, true), x[2]);
       }},
      {"attention without maximum", qkv,
       [](const auto& x) {
         const Tensor e = exp(scores(x));
         return matmul(e / sum(e, {-1}, true), x[2]);
       }},
      {"causal", qkv,
       [](const auto& x) {
         return matmul(softmax(where(places(11, 0, x[0]) > places(11, 1, x[0]), -infinity, scores(x))), x[2]);
       },
       DType::f32, 2e-5, true},
      {"causal, fewer queries",
       {{2, 2, 3, 4}, {2, 2, 8, 4}, {2, 2, 8, 4}},
       [](const auto& x) {
         return matmul(softmax(where(places(8, 0, x[0]) <= places(3, 1, x[0]) + 5.0, scores(x), -1e9)), x[2]);
       }},
      {"masked keys", qkv, [&](const auto& x) { return matmul(softmax(hidden_keys(scores(x), 11)), x[2]); }},
      {"mask and bias",
       {{2, 3, 11, 5}, {2, 3, 11, 5}, {2, 3, 11, 7}, {3, 11, 11}},
       [](const auto& x) {
         return matmul(softmax(where(places(11, 0, x[0]) <= places(11, 1, x[0]), scores(x) + x[3], -infinity)), x[2]);
       },
       DType::f32,
       2e-5,
       true},
      {"bias of keys",
       {{2, 3, 11, 5}, {2, 3, 11, 5}, {2, 3, 11, 7}, {11}},
       [](const auto& x) { return matmul(softmax(scores(x) + x[3]), x[2]); }},
      {"three dimensions",
       {{3, 6, 4}, {3, 9, 4}, {3, 9, 5}},
       [](const auto& x) { return matmul(softmax(scores(x)), x[2]); }},
      {"two dimensions",
       {{6, 4}, {9, 4}, {9, 5}},
       [](const auto& x) { return matmul(softmax(matmul(x[0] / 3.0, transpose(x[1]))), x[2]); },
       DType::f32,
       2e-5,
       true},
      {"one matrix for all",
       {{2, 6, 6}},
       [](const auto& x) { return matmul(softmax(matmul(x[0], transpose(x[0]))), x[0]); }},
      {"softmax",
       {{5, 9}},
       [](const auto& x) {
         const Tensor e = exp(x[0]);
         return e / sum(e, {-1}, true);
       }},
      {"log softmax, first axis",
       {{5, 9}},
       [](const auto& x) {
         const Tensor e = exp(x[0]);
         return log(e / sum(e, {0}, true));
       }},
      {"layer norm",
       {{5, 9}},
       [](const auto& x) {
         const Tensor m = mean(x[0], {-1}, true);
         return (x[0] - m) / sqrt(mean(x[0] * x[0], {-1}, true) - m * m + 1e-3);
       },
       DType::f32,
       1e-4},
      {"layer norm with var()",
       {{5, 9}},
       [](const auto& x) { return (x[0] - mean(x[0], {-1}, true)) / sqrt(var(x[0], {-1}, true, 0) + 1e-3); },
       DType::f32,
       1e-4},
      {"norm over two axes",
       {{4, 5, 3}},
       [](const auto& x) {
         const Tensor m = mean(x[0], {0, 2}, true);
         return (x[0] - m) / sqrt(mean(x[0] * x[0], {0, 2}, true) - m * m + 1e-3);
       },
       DType::f32,
       1e-4},
      {"rms norm",
       {{5, 9}},
       [](const auto& x) { return x[0] / sqrt(mean(x[0] * x[0], {-1}, true) + 1e-3); },
       DType::f32,
       1e-4},
      {"gelu", {{5, 9}}, [](const auto& x) { return 0.5 * x[0] * (1.0 + erf(x[0] / std::sqrt(2.0))); }},
      {"gelu tanh",
       {{5, 9}},
       [](const auto& x) { return 0.5 * x[0] * (1.0 + tanh(0.7978845608028654 * (x[0] + 0.044715 * pow(x[0], 3.0)))); },
       DType::f32,
       1e-4},
      {"silu", {{5, 9}}, [](const auto& x) { return x[0] / (1.0 + exp(-x[0])); }},
      {"f16", qkv, [](const auto& x) { return matmul(softmax(scores(x)), x[2]); }, DType::f16, 4e-3},
  };
}

class Patterns : public testing::TestWithParam<std::string> {};

TEST_P(Patterns, AgreeWithReference) {
  size_t number = 0;
  for (const Case& c : cases()) {
    if (!c.everywhere && GetParam().starts_with("vulkan")) continue;
    if (c.everywhere && !tests::takes_case(GetParam(), c.name, ++number)) continue;
    std::vector<std::vector<double>> want;
    {
      const PassScope as_written("none");
      want = results(c, device("reference:0"));
    }
    const auto got = results(c, device(GetParam()));
    ASSERT_EQ(got.size(), want.size());
    for (size_t t = 0; t < got.size(); ++t) {
      ASSERT_EQ(got[t].size(), want[t].size()) << c.name;
      for (size_t i = 0; i < got[t].size(); ++i) {
        ASSERT_NEAR(got[t][i], want[t][i], c.tolerance * (1 + std::abs(want[t][i])))
            << c.name << " result " << t << " element " << i;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, Patterns, testing::ValuesIn(test::value_devices()), [](const auto& device) {
  std::string name = device.param;
  std::replace(name.begin(), name.end(), ':', '_');
  return name;
});

// Exponentials beyond f32, and a mean that is large beside the spread: what was recognised keeps digits that the
// formula loses.
TEST(PatternsKeepDigits, SoftmaxAndVariance) {
  for (const std::string& id : test::kernel_devices()) {
    const NoGradScope no_grad;
    const Tensor x = Tensor::from_vector(std::vector<float>{1000, 1001, 1002}, {1, 3}, &device(id));
    // In functions of their own: what is held is not replaced.
    const auto soft = [&] {
      const Tensor e = exp(x);
      return e / sum(e, {-1}, true);
    };
    const auto norm = [&] {
      const Tensor m = mean(x, {-1}, true);
      return (x - m) / sqrt(mean(x * x, {-1}, true) - m * m + 1e-5);
    };
    const Tensor weights = soft();
    EXPECT_NEAR(weights.to_doubles()[2], 0.66524096, 1e-6) << id;
    const Tensor normed = norm();
    const std::vector<double> y = normed.to_doubles();
    EXPECT_NEAR(y[0], -1.2247357, 1e-5) << id;
  }
}

// The folded network against the one that was written, also after the parameters changed, and as a compiled function.
TEST(BatchNormFolding, AgreesWithTheUnfoldedNetwork) {
  for (const std::string& id : test::kernel_devices()) {
    DeviceContext& d = device(id);
    manual_seed(3);
    nn::Conv2d conv(3, 6, {3, 3}, {.groups = 3, .device = d});
    nn::BatchNorm first(6, {.device = d}), second(5, {.device = d});
    nn::Linear linear(6, 5, {.device = d});
    const Tensor x = numbers({4, 3, 7, 6}, 1, d);
    const auto forward = [&] { return second(linear(mean(relu(first(conv(x))), {2, 3}))); };
    for (int i = 0; i < 3; ++i) forward();  // running statistics
    eval_pending();
    first.eval();
    second.eval();
    const NoGradScope no_grad;
    const auto compiled = compile([&](const Tensor&) { return forward(); });
    for (int round = 0; round < 3; ++round) {
      std::vector<double> want;
      {
        const PassScope off("-batch-norm");
        want = forward().to_doubles();
      }
      for (int repeat = 0; repeat < 3; ++repeat) {
        const std::vector<double> got = forward().to_doubles(), replayed = compiled(x).to_doubles();
        for (size_t i = 0; i < want.size(); ++i) {
          EXPECT_NEAR(got[i], want[i], 2e-5 * (1 + std::abs(want[i]))) << id << " round " << round << " element " << i;
          EXPECT_NEAR(replayed[i], want[i], 2e-5 * (1 + std::abs(want[i])))
              << id << " compiled, round " << round << " element " << i;
        }
      }
      if (round == 0) first.running_var.assign(first.running_var * 1.7);  // in place
      if (round == 1) conv.load_state_dict({{"weight", conv.weight * 0.5}, {"bias", conv.bias + 1.0}});
    }
  }
}

}  // namespace
}  // namespace heddle
