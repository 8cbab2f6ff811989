// Ops of language models against the standard's formulas, element by element in double precision.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "heddle/core/functions/functions.h"
#include "heddle/onnx/import.h"
#include "heddle/onnx/parse.h"
#include "tests/onnx/wire.h"

namespace heddle::tests {
namespace {

// Values on the host with their shape.
struct Values {
  std::vector<int64_t> shape;
  std::vector<float> values;
  double at(const std::vector<int64_t>& place) const {
    int64_t offset = 0;
    for (size_t i = 0; i < shape.size(); ++i) offset = offset * shape[i] + place[i];
    return static_cast<double>(values[static_cast<size_t>(offset)]);
  }
  Tensor tensor() const { return Tensor::from_vector(values, Shape(shape)); }
};

Values drawn(std::vector<int64_t> shape, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  Values result{std::move(shape), {}};
  int64_t count = 1;
  for (const int64_t n : result.shape) count *= n;
  for (int64_t i = 0; i < count; ++i) result.values.push_back(normal(random));
  return result;
}

std::vector<Tensor> run(const std::string& op, int version, const std::vector<Values>& inputs, const Names& outputs,
                        const std::vector<Wire>& attributes) {
  Names names;
  std::vector<Wire> ports, results;
  std::vector<Tensor> tensors;
  for (const Values& input : inputs) {
    names.push_back(input.shape.empty() ? "" : "x" + std::to_string(names.size()));
    if (input.shape.empty()) continue;
    ports.push_back(port(names.back(), f32, input.shape));
    tensors.push_back(input.tensor());
  }
  for (const std::string& output : outputs) results.push_back(port(output, f32, {}));
  const std::string bytes = model(graph({node(op, names, outputs, attributes)}, ports, results), version);
  return onnx::Model(onnx::parse_model(bytes, "net.onnx", {"."})).call(tensors);
}

void expect_near(const Tensor& got, const std::vector<double>& wanted) {
  const std::vector<float> values = got.to_vector<float>();
  ASSERT_EQ(values.size(), wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(values[i], wanted[i], 2e-6 * (1 + std::abs(wanted[i]))) << i;
}

struct Rule {
  bool causal = false;
  int64_t left = -1, past = 0;
  double softcap = 0;
};

// q (1, H, T, D), k and v (1, J, S, D), the past included.
std::vector<double> attended(const Values& q, const Values& k, const Values& v, const Rule& rule) {
  const int64_t heads = q.shape[1], queries = q.shape[2], size = q.shape[3], keys = k.shape[2];
  std::vector<double> result;
  for (int64_t h = 0; h < heads; ++h) {
    const int64_t j = h / (heads / k.shape[1]);
    for (int64_t t = 0; t < queries; ++t) {
      std::vector<double> weights(static_cast<size_t>(keys), 0);
      double total = 0;
      for (int64_t s = 0; s < keys; ++s) {
        const int64_t place = t + rule.past;
        if ((rule.causal && s > place) || (rule.left >= 0 && s < place - rule.left)) continue;
        double score = 0;
        for (int64_t d = 0; d < size; ++d) score += q.at({0, h, t, d}) * k.at({0, j, s, d});
        score /= std::sqrt(static_cast<double>(size));
        if (rule.softcap != 0) score = rule.softcap * std::tanh(score / rule.softcap);
        total += weights[static_cast<size_t>(s)] = std::exp(score);
      }
      for (int64_t d = 0; d < size; ++d) {
        double sum = 0;
        for (int64_t s = 0; s < keys; ++s) sum += weights[static_cast<size_t>(s)] * v.at({0, j, s, d});
        result.push_back(total == 0 ? 0 : sum / total);
      }
    }
  }
  return result;
}

Values joined(const Values& a, const Values& b) {
  const Tensor both = concat({a.tensor(), b.tensor()}, 2);
  const auto dims = both.shape().dims();
  return {{dims.begin(), dims.end()}, both.to_vector<float>()};
}

TEST(OnnxAttention, SharedHeadsAndAPast) {
  const Values q = drawn({1, 4, 3, 5}, 1), k = drawn({1, 2, 3, 5}, 2), v = drawn({1, 2, 3, 5}, 3);
  const Values past_k = drawn({1, 2, 4, 5}, 4), past_v = drawn({1, 2, 4, 5}, 5), none;
  const std::vector<Tensor> y =
      run("Attention", 24, {q, k, v, none, past_k, past_v}, {"y", "k", "v"}, {attribute("is_causal", int64_t{1})});
  const Values keys = joined(past_k, k), values = joined(past_v, v);
  expect_near(y[0], attended(q, keys, values, {.causal = true, .past = 4}));
  EXPECT_EQ(y[1].to_vector<float>(), keys.values);
  EXPECT_EQ(y[2].to_vector<float>(), values.values);
}

TEST(OnnxAttention, WindowsAndSoftCaps) {
  const Values q = drawn({1, 2, 6, 4}, 1), k = drawn({1, 2, 6, 4}, 2), v = drawn({1, 2, 6, 4}, 3);
  expect_near(run("Attention", 25, {q, k, v}, {"y"},
                  {attribute("is_causal", int64_t{1}), attribute("left_window_size", int64_t{2})})[0],
              attended(q, k, v, {.causal = true, .left = 2}));
  expect_near(run("Attention", 25, {q, k, v}, {"y"}, {attribute_real("softcap", 0.5f)})[0],
              attended(q, k, v, {.softcap = 0.5}));
}

// With fewer keys than queries and lengths of the cache the first queries see nothing: zeros, by either path.
TEST(OnnxAttention, QueriesThatSeeNothingAreZero) {
  const Values q = drawn({1, 1, 3, 4}, 1), k = drawn({1, 1, 2, 4}, 2), v = drawn({1, 1, 2, 4}, 3);
  const std::string bytes =
      model(graph({node("Attention", {"q", "k", "v", "", "", "", "n"}, {"y"}, {attribute("is_causal", int64_t{1})})},
                  {port("q", f32, q.shape), port("k", f32, k.shape), port("v", f32, v.shape), port("n", i64, {1})},
                  {port("y", f32, {})}),
            24);
  const onnx::Model net(onnx::parse_model(bytes, "net.onnx", {"."}));
  const Tensor length = Tensor::from_vector(std::vector<int64_t>{2}, {1});
  expect_near(net.call({q.tensor(), k.tensor(), v.tensor(), length})[0],
              attended(q, k, v, {.causal = true, .past = -1}));
}

TEST(OnnxAttention, LinearRule) {
  const int64_t steps = 4, size = 3;
  const Values q = drawn({1, steps, size}, 1), k = drawn({1, steps, size}, 2), v = drawn({1, steps, size}, 3);
  const Values decay = drawn({1, steps, 1}, 4), beta = drawn({1, steps, 1}, 5), none;
  const std::vector<Tensor> y =
      run("LinearAttention", 27, {q, k, v, none, decay, beta}, {"y", "state"},
          {attribute("q_num_heads", int64_t{1}), attribute("kv_num_heads", int64_t{1}), attribute_real("scale", 0.5f)});
  std::vector<double> state(static_cast<size_t>(size * size), 0), outputs;
  const auto cell = [&](int64_t a, int64_t b) -> double& { return state[static_cast<size_t>(a * size + b)]; };
  for (int64_t t = 0; t < steps; ++t) {
    for (double& s : state) s *= std::exp(decay.at({0, t, 0}));
    for (int64_t b = 0; b < size; ++b) {
      double known = 0;
      for (int64_t a = 0; a < size; ++a) known += cell(a, b) * k.at({0, t, a});
      for (int64_t a = 0; a < size; ++a) cell(a, b) += beta.at({0, t, 0}) * k.at({0, t, a}) * (v.at({0, t, b}) - known);
    }
    for (int64_t b = 0; b < size; ++b) {
      double sum = 0;
      for (int64_t a = 0; a < size; ++a) sum += 0.5 * q.at({0, t, a}) * cell(a, b);
      outputs.push_back(sum);
    }
  }
  expect_near(y[0], outputs);
  expect_near(y[1], state);
}

}  // namespace
}  // namespace heddle::tests
