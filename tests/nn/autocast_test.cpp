// Mixed precision: what each function takes within an AutocastScope, gradients against f32, and that scopes compose
// with everything that records.
#include "heddle/core/graph/autocast.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "heddle/autograd/autograd.h"
#include "heddle/autograd/custom.h"
#include "heddle/autograd/vmap.h"
#include "heddle/core/compile/compile.h"
#include "heddle/core/device/context.h"
#include "heddle/core/functions/control/control.h"
#include "heddle/core/functions/user/user_kernel.h"
#include "heddle/core/graph/checkpoint.h"
#include "heddle/nn/nn.h"
#include "tests/nn/support.h"
#include "tests/support/device_test.h"

namespace heddle::tests {
namespace {

Tensor some(const Shape& shape, DType dtype = DType::f32, DeviceContext& where = reference()) {
  Values values;
  for (int64_t i = 0; i < shape.numel(); ++i) values.push_back(0.5 + 0.4 * std::sin(1.7 * static_cast<double>(i)));
  return cast(f32(values, shape, where), dtype);
}

struct PolicyCase {
  const char* name;
  Autocast policy;
  std::function<Tensor(const Tensor& x)> f;  // x (4, 4)
};

const std::vector<PolicyCase>& policies() {
  static const auto image = [](const Tensor& x) { return reshape(x, {1, 1, 4, 4}); };
  static const auto heads = [](const Tensor& x) { return reshape(x, {1, 1, 4, 4}); };
  static const auto classes = [] {
    return Tensor::from_vector(std::vector<int32_t>{0, 1, 2, 3}, Shape{4}, &reference());
  };
  static const std::vector<PolicyCase> cases{
      {"matmul", Autocast::low, [](const Tensor& x) { return matmul(x, x); }},
      {"linear with an f32 bias", Autocast::low, [](const Tensor& x) { return linear(x, x, some({4})); }},
      {"nn::Linear", Autocast::low, [](const Tensor& x) { return nn::Linear(4, 3, {.device = reference()})(x); }},
      {"conv2d with an f32 bias", Autocast::low,
       [](const Tensor& x) {
         return conv2d(image(x), some({2, 1, 3, 3}), some({2}), ConvOptions{});
       }},
      {"conv_transpose2d", Autocast::low,
       [](const Tensor& x) {
         return conv_transpose2d(image(x), some({1, 2, 3, 3}), Tensor(), ConvOptions{});
       }},
      {"attention", Autocast::low,
       [](const Tensor& x) { return scaled_dot_product_attention(heads(x), heads(x), heads(x)); }},
      {"sum", Autocast::f32, [](const Tensor& x) { return sum(x, {1}); }},
      {"prod", Autocast::f32, [](const Tensor& x) { return prod(x, {1}); }},
      {"mean", Autocast::f32, [](const Tensor& x) { return mean(x); }},
      {"var", Autocast::f32, [](const Tensor& x) { return var(x, {1}); }},
      {"norm", Autocast::f32, [](const Tensor& x) { return norm(x); }},
      {"cumsum", Autocast::f32, [](const Tensor& x) { return cumsum(x, 1); }},
      {"softmax", Autocast::f32, [](const Tensor& x) { return softmax(x, 1); }},
      {"log_softmax", Autocast::f32, [](const Tensor& x) { return log_softmax(x, 1); }},
      {"logsumexp", Autocast::f32, [](const Tensor& x) { return logsumexp(x, {1}); }},
      {"layer_norm", Autocast::f32, [](const Tensor& x) { return layer_norm(x, {4}); }},
      {"batch_norm", Autocast::f32, [](const Tensor& x) { return batch_norm(x, {}, {}); }},
      {"cross_entropy", Autocast::f32, [](const Tensor& x) { return cross_entropy(x, classes()); }},
      {"mse_loss", Autocast::f32, [](const Tensor& x) { return mse_loss(x, x); }},
      {"exp", Autocast::f32, [](const Tensor& x) { return exp(x); }},
      {"log", Autocast::f32, [](const Tensor& x) { return log(x); }},
      {"pow", Autocast::f32, [](const Tensor& x) { return pow(x, 2.2); }},
      {"rsqrt", Autocast::f32, [](const Tensor& x) { return rsqrt(x); }},
      {"softplus", Autocast::f32, [](const Tensor& x) { return softplus(x); }},
      {"add", Autocast::widest, [](const Tensor& x) { return x + x; }},
      {"mul by a number", Autocast::widest, [](const Tensor& x) { return x * 0.5; }},
      {"relu", Autocast::widest, [](const Tensor& x) { return relu(x); }},
      {"gelu", Autocast::widest, [](const Tensor& x) { return gelu(x); }},
      {"max", Autocast::widest, [](const Tensor& x) { return max(x, {1}); }},
      {"where", Autocast::widest, [](const Tensor& x) { return where(x > 0.5, x, 0); }},
      {"concat", Autocast::widest,
       [](const Tensor& x) {
         return concat({x, x}, 0);
       }},
      {"dropout", Autocast::widest, [](const Tensor& x) { return dropout(x, 0.5, true); }},
  };
  return cases;
}

TEST(Autocast, EachFunctionTakesWhatThePolicySays) {
  for (const PolicyCase& c : policies()) {
    for (const DType low : {DType::f16, DType::bf16}) {
      for (const DType given : {DType::f32, low}) {
        const Tensor x = some({4, 4}, given);
        const DType outside = c.f(x).dtype();
        const AutocastScope scope(low);
        const DType expected = c.policy == Autocast::low ? low : c.policy == Autocast::f32 ? DType::f32 : given;
        EXPECT_EQ(c.f(x).dtype(), expected) << c.name << " of " << name_of(given) << " in a scope of " << name_of(low);
        const AutocastScope off = AutocastScope::off();
        EXPECT_EQ(c.f(x).dtype(), outside) << c.name << " of " << name_of(given);
      }
    }
  }
}

TEST(Autocast, WidestIsThePromotedTypeOfTheInputs) {
  const AutocastScope scope(DType::bf16);
  EXPECT_EQ((some({3}) + some({3}, DType::bf16)).dtype(), DType::f32);
  EXPECT_EQ((some({3}, DType::f16) * some({3}, DType::bf16)).dtype(), DType::f32);
}

TEST(Autocast, LeavesOtherTypesAlone) {
  const AutocastScope scope(DType::f16);
  const Tensor wide = some({4, 4}, DType::f64), whole = cast(some({4, 4}), DType::i32);
  EXPECT_EQ(matmul(wide, wide).dtype(), DType::f64);
  EXPECT_EQ(exp(wide).dtype(), DType::f64);
  EXPECT_EQ(sum(whole).dtype(), DType::i64);
  EXPECT_EQ(matmul(whole, whole).dtype(), DType::i32);
  EXPECT_EQ(exp(whole).dtype(), DType::f32);
}

TEST(Autocast, ScopesNestAndEnd) {
  const Tensor x = some({2, 2});
  EXPECT_FALSE(AutocastScope::active());
  {
    const AutocastScope outer(DType::f16);
    {
      const AutocastScope inner(DType::bf16);
      EXPECT_EQ(matmul(x, x).dtype(), DType::bf16);
      const AutocastScope off = AutocastScope::off();
      EXPECT_EQ(matmul(x, x).dtype(), DType::f32);
    }
    EXPECT_EQ(matmul(x, x).dtype(), DType::f16);
  }
  EXPECT_EQ(matmul(x, x).dtype(), DType::f32);
  expect_error<DTypeError>([] { AutocastScope scope(DType::f32); }, {"[AutocastScope]", "f16 or bf16", "off()"});
}

TEST(Autocast, FunctionsOfOnesOwnStateTheirPolicy) {
  const auto dtype_in = [](const Tensor& x) { return matmul(x, x); };
  const auto square_ish =
      custom_vjp([](const Tensor& x) { return x * x; }, [](const Tensor& x) { return std::pair(x * x, x); },
                 [](const Tensor& x, const Tensor& g) { return 2 * x * g; });
  const UserKernel kernel =
      elementwise_kernel({.name = "autocast_half",
                          .inputs = {"x"},
                          .text = "0.5 * x",
                          .autocast = Autocast::f32,
                          .host = [](std::span<const double> in, std::span<double> out) { out[0] = 0.5 * in[0]; }});
  const Tensor narrow = some({2, 2}, DType::f16);
  EXPECT_EQ(kernel(narrow).dtype(), DType::f16);
  const AutocastScope scope(DType::f16);
  EXPECT_EQ(kernel(narrow).dtype(), DType::f32);
  EXPECT_EQ(autocast_as(Autocast::f32, dtype_in)(narrow).dtype(), DType::f32);
  EXPECT_EQ(autocast_as(Autocast::low, dtype_in)(some({2, 2})).dtype(), DType::f16);
  Tensor x = some({3});
  x.set_requires_grad(true);
  backward(sum(autocast_as(Autocast::f32, square_ish)(x * 1)));
  EXPECT_EQ(x.grad().dtype(), DType::f32);
}

// ---- gradients

struct Model {
  explicit Model(DeviceContext& d)
      : first(5, 16, {.device = d, .generator = &seeded()}),
        norm(16, {.device = d}),
        second(16, 7, {.device = d, .generator = &seeded()}) {}
  static Generator& seeded() {
    static Generator generator(7);
    return generator;
  }
  Tensor loss(const Tensor& x, const Tensor& targets) { return cross_entropy(second(gelu(norm(first(x)))), targets); }
  std::vector<Tensor> parameters() const { return {first.weight, first.bias, second.weight, second.bias}; }
  nn::Linear first;
  nn::LayerNorm norm;
  nn::Linear second;
};

double relative_error(const Values& got, const Values& expected) {
  double error = 0, size = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    error += (got[i] - expected[i]) * (got[i] - expected[i]);
    size += expected[i] * expected[i];
  }
  return std::sqrt(error / size);
}

class AutocastOn : public testing::TestWithParam<std::string> {
 protected:
  DeviceContext& where() const { return device(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(Devices, AutocastOn, testing::ValuesIn(test::value_devices()), device_test_name);

TEST_P(AutocastOn, GradientsAreThoseOfF32WithinHalfPrecision) {
  Model model(where());
  const Tensor x = some({12, 5}, DType::f32, where()),
               targets =
                   Tensor::from_vector(std::vector<int32_t>{0, 1, 2, 3, 4, 5, 6, 0, 1, 2, 3, 4}, Shape{12}, &where());
  const auto gradients = [&](std::optional<DType> low) {
    std::optional<AutocastScope> scope;
    if (low) scope.emplace(*low);
    backward(model.loss(x, targets));  // within the scope: gradients are recorded outside of it all the same
    std::vector<Values> all;
    for (Tensor parameter : model.parameters()) {
      EXPECT_EQ(parameter.dtype(), DType::f32);
      EXPECT_EQ(parameter.grad().dtype(), DType::f32);
      all.push_back(parameter.grad().to_vector<double>());
      parameter.zero_grad();
    }
    return all;
  };
  const std::vector<Values> exact = gradients({});
  for (const auto& [low, tolerance] : {std::pair(DType::f16, 2e-3), std::pair(DType::bf16, 1.6e-2)}) {
    const std::vector<Values> got = gradients(low);
    double largest = 0;
    for (size_t i = 0; i < got.size(); ++i) {
      const double error = relative_error(got[i], exact[i]);
      EXPECT_LT(error, tolerance) << "parameter " << i << " in " << name_of(low);
      largest = std::max(largest, error);
    }
    EXPECT_GT(largest, 1e-5) << "nothing was computed in " << name_of(low);
  }
}

// Explicit casts, written where the policy has them, are the same program.
TEST_P(AutocastOn, IsWhatExplicitCastsAre) {
  const Tensor x = some({6, 8}, DType::f32, where()), w = some({8, 3}, DType::f32, where());
  const Tensor by_hand = softmax(cast(gelu(matmul(cast(x, DType::f16), cast(w, DType::f16))), DType::f32), 1);
  const AutocastScope scope(DType::f16);
  EXPECT_EQ(softmax(gelu(matmul(x, w)), 1).to_bytes(), by_hand.to_bytes());
}

TEST_P(AutocastOn, ComposesWithCompileCheckpointVmapAndLoops) {
  const Tensor x = some({6, 8}, DType::f32, where()), w = some({8, 8}, DType::f32, where());
  const auto layer = [&](const Tensor& a) { return gelu(matmul(a, w)); };
  const AutocastScope scope(DType::f16);
  const std::vector<uint8_t> expected = layer(layer(x)).to_bytes();
  EXPECT_EQ(checkpoint(layer, checkpoint(layer, x)).to_bytes(), expected);
  const Tensor mapped = vmap([&](const Tensor& row) { return layer(layer(row)); })(x);
  EXPECT_EQ(mapped.dtype(), DType::f16);
  EXPECT_LT(relative_error(mapped.to_vector<double>(), layer(layer(x)).to_vector<double>()), 2e-3);
  const Scanned looped = scan(
      [&](const std::vector<Tensor>& carry, const std::vector<Tensor>&) {
        return Scanned{{layer(carry[0])}, {}};
      },
      {cast(x, DType::f16)}, {}, {2});
  EXPECT_EQ(looped.carry[0].to_bytes(), expected);
}

// The scope around a compiled function is part of what it is asked for.
TEST_P(AutocastOn, CompiledFunctionsKnowTheScopeAroundThem) {
  const Tensor w = some({8, 8}, DType::f32, where());
  auto product = compile([&](const Tensor& a) { return matmul(a, w); });
  const Tensor x = some({6, 8}, DType::f32, where());
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(product(x).dtype(), DType::f32);
    const AutocastScope scope(DType::bf16);
    EXPECT_EQ(product(x).dtype(), DType::bf16);
  }
}

TEST_P(AutocastOn, RecurrentLayersKeepTheirState) {
  nn::LSTM lstm(5, 6, {.device = where()});
  const Tensor x = some({3, 2, 5}, DType::f32, where());
  const Values exact = lstm.run(x).states.to_vector<double>();
  const AutocastScope scope(DType::f16);
  const Tensor states = lstm.run(x).states;
  EXPECT_EQ(states.dtype(), DType::f32);
  const double error = relative_error(states.to_vector<double>(), exact);
  EXPECT_LT(error, 2e-3);
  EXPECT_GT(error, 0);
}

}  // namespace
}  // namespace heddle::tests
