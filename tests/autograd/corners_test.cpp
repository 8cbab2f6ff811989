// Gradients at corners, bounds, ties and NaN, in double precision, against PyTorch's (torch_corners.json, made by
// torch_corners.py): what docs/gradients.md promises.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "heddle/autograd/autograd.h"
#include "heddle/core/device/context.h"
#include "heddle/core/functions/functions.h"
#include "heddle/core/functions/math/math.h"
#include "heddle/core/functions/math/statistics.h"
#include "heddle/core/functions/nn/losses.h"
#include "heddle/core/functions/nn/norms.h"

namespace heddle::tests {
namespace {

using nlohmann::json;
using Values = std::vector<double>;
using Tensors = std::vector<Tensor>;
using Call = std::function<Tensor(const Tensors&)>;

constexpr double infinity = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();

template <class F>
Call of_one(F f) {
  return [f](const Tensors& in) { return f(in[0]); };
}
template <class F>
Call of_two(F f) {
  return [f](const Tensors& in) { return f(in[0], in[1]); };
}
#define ONE(...) of_one([](const Tensor& x) { return __VA_ARGS__; })
#define TWO(...) of_two([](const Tensor& x, const Tensor& y) { return __VA_ARGS__; })

std::map<std::string, Call> calls() {
  return {
      {"clamp", ONE(clamp(x, -1, 1))},
      {"clamp_low", ONE(clamp(x, 1, std::nullopt))},
      {"clamp_high", ONE(clamp(x, std::nullopt, 1))},
      {"clamp_crossed", ONE(clamp(x, 1, -1))},
      {"clamp_one_point", ONE(clamp(x, 2, 2))},
      {"logit", ONE(logit(x, 0.25))},
      {"leaky_relu", ONE(leaky_relu(x, 0.1))},
      {"softshrink", ONE(softshrink(x, 0.5))},
      {"hardshrink", ONE(hardshrink(x, 0.5))},
      {"threshold", ONE(threshold(x, 0.5, 9))},
      {"pow0", ONE(pow(x, 0.0))},
      {"pow1", ONE(pow(x, 1.0))},
      {"pow2", ONE(pow(x, 2.0))},
      {"pow_half", ONE(pow(x, 0.5))},
      {"smooth_l1", ONE(smooth_l1_loss(x, zeros_like(x), 1, Reduction::none))},
      {"huber", ONE(huber_loss(x, zeros_like(x), 1, Reduction::none))},
      {"l1", ONE(l1_loss(x, zeros_like(x), Reduction::none))},
      {"hinge_embedding", ONE(hinge_embedding_loss(x, full_like(x, -1), 1, Reduction::none))},
      {"relu", ONE(relu(x))},
      {"relu6", ONE(relu6(x))},
      {"hardtanh", ONE(hardtanh(x, -1, 1))},
      {"hardsigmoid", ONE(hardsigmoid(x))},
      {"hardswish", ONE(hardswish(x))},
      {"elu", ONE(elu(x))},
      {"celu", ONE(celu(x))},
      {"selu", ONE(selu(x))},
      {"softsign", ONE(softsign(x))},
      {"abs", ONE(abs(x))},
      {"sign", ONE(sign(x))},
      {"sinc", ONE(sinc(x))},
      {"sqrt", ONE(sqrt(x))},
      {"rsqrt", ONE(rsqrt(x))},
      {"log", ONE(log(x))},
      {"reciprocal", ONE(reciprocal(x))},
      {"frac", ONE(frac(x))},
      {"floor", ONE(floor(x))},
      {"nan_to_num", ONE(nan_to_num(x))},
      {"maximum", TWO(maximum(x, y))},
      {"minimum", TWO(minimum(x, y))},
      {"fmod", TWO(fmod(x, y))},
      {"remainder", TWO(remainder(x, y))},
      {"atan2", TWO(atan2(x, y))},
      {"hypot", TWO(hypot(x, y))},
      {"copysign", TWO(copysign(x, y))},
      {"xlogy", TWO(xlogy(x, y))},
      {"pow", TWO(pow(x, y))},
      {"amax", ONE(max(x))},
      {"amin", ONE(min(x))},
      {"norm2", ONE(norm(x))},
      {"norm1", ONE(norm(x, 1))},
      {"norm_inf", ONE(norm(x, infinity))},
      {"stddev", ONE(stddev(x))},
      {"prod", ONE(prod(x))},
      {"logsumexp", ONE(logsumexp(x))},
      {"cummax", ONE(cummax(x, 0).values)},
  };
}
#undef ONE
#undef TWO

double number(const json& value) {
  if (value.is_number()) return value.get<double>();
  const std::string text = value;
  return text == "nan" ? nan : text == "inf" ? infinity : -infinity;
}
Values numbers(const json& list) {
  Values all;
  for (const json& value : list) all.push_back(number(value));
  return all;
}

// Where Heddle differs on purpose; docs/gradients.md names each. Places in the points of torch_corners.py.
struct Difference {
  const char* name;
  size_t input, place;
  double ours;
};
const Difference differences[] = {
    {"abs", 0, 12, nan},    {"l1", 0, 12, nan},  // sign(NaN) is NaN
    {"hypot", 0, 0, 0},     {"hypot", 1, 0, 0},  // at (0, 0)
    {"xlogy", 1, 0, 0},                          // 0 / 0 counts as 0 where x is 0
    {"pow_half", 0, 14, 0},  // of -infinity: IEEE's pow is +infinity there, PyTorch's is the square root
};

bool close(double a, double b) {
  return (std::isnan(a) && std::isnan(b)) || a == b || std::abs(a - b) <= 1e-7 * std::max(1.0, std::abs(b));
}

TEST(Corners, GradientsArePyTorchs) {
  DeviceContext& reference = device("reference:0");
  std::ifstream file(HEDDLE_SOURCE_DIR "/tests/autograd/torch_corners.json");
  const auto known = calls();
  std::set<std::string> seen;
  for (const json& row : json::parse(file)) {
    const std::string name = row["name"];
    seen.insert(name);
    Tensors inputs;
    for (const json& list : row["inputs"]) {
      const Values values = numbers(list);
      inputs.push_back(
          Tensor::from_vector(values, {static_cast<int64_t>(values.size())}, &reference).set_requires_grad());
    }
    backward(sum(known.at(name)(inputs)));
    for (size_t k = 0; k < inputs.size(); ++k) {
      const Values want = numbers(row["gradients"][k]), x = inputs[k].to_doubles();
      const Values got = inputs[k].grad().defined() ? inputs[k].grad().to_doubles() : Values(want.size(), 0.0);
      for (size_t i = 0; i < want.size(); ++i) {
        double expected = want[i];
        for (const Difference& d : differences) {
          if (d.name == name && d.input == k && d.place == i) expected = d.ours;
        }
        EXPECT_TRUE(close(got[i], expected))
            << name << " input " << k << " place " << i << " x " << x[i] << ": " << got[i] << ", expected " << expected;
      }
    }
  }
  EXPECT_EQ(seen.size(), known.size());
}

// Of a batch without examples, parameters have gradients of 0.
TEST(Corners, NormsOfNothingReachTheirParameters) {
  DeviceContext& d = device("reference:0");
  const Tensor x = zeros({0, 6, 3}, DType::f32, &d);
  Tensor weight = ones({6}, DType::f32, &d), bias = zeros({6}, DType::f32, &d);
  weight.set_requires_grad(true);
  bias.set_requires_grad(true);
  for (const auto& norm : {+[](const Tensor&a, const Tensor&w, const Tensor&b) { return group_norm(a, 2, w, b); },
                           +[](const Tensor&a, const Tensor&w, const Tensor&b) { return instance_norm(a, w, b); }}) {
    for (const Tensor& gradient : grad(sum(norm(x, weight, bias)), {weight, bias}))
      EXPECT_EQ(gradient.to_vector<double>(), Values(6, 0.0));
  }
}

}  // namespace
}  // namespace heddle::tests
