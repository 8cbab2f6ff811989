// Distributions on every device: support, mean, variance and quantiles of one seed's draws, reproducibility, gradients
// of gumbel_softmax. Bounds are five standard errors or wider; the draws are fixed by the seed.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "heddle/autograd/autograd.h"
#include "heddle/core/functions/functions.h"
#include "tests/support/device_test.h"

namespace heddle::tests {
namespace {

class Distributions : public DeviceTest {
 protected:
  static constexpr int64_t count = 20000;
  Generator generator_{42, 0};
};

struct Moments {
  double mean = 0, var = 0, low = INFINITY, high = -INFINITY, median = 0;
};

Moments moments(const Tensor& x) {
  std::vector<double> v = x.to_doubles();
  Moments m;
  for (const double e : v) m.mean += e / static_cast<double>(v.size());
  for (const double e : v) m.var += (e - m.mean) * (e - m.mean) / static_cast<double>(v.size());
  std::sort(v.begin(), v.end());
  m.low = v.front();
  m.high = v.back();
  m.median = v[v.size() / 2];
  return m;
}

TEST_P(Distributions, MeanVarianceAndSupport) {
  DeviceContext* d = &device();
  Generator* g = &generator_;
  struct Row {
    const char* name;
    Tensor x;
    double mean, var, low, high, median;
  };
  const double pi = 3.14159265358979, e = std::exp(1.0);
  // A normal number in [-1, 2]: mean (phi(-1) - phi(2)) / Z, variance 1 + (-phi(-1) - 2 phi(2)) / Z - mean^2, median
  // Phi^-1 of the middle.
  const double a = std::exp(-0.5) / std::sqrt(2 * pi), b = std::exp(-2.0) / std::sqrt(2 * pi);
  const double mass = 0.5 * (std::erf(2 / std::sqrt(2.0)) + std::erf(1 / std::sqrt(2.0))), centre = (a - b) / mass;
  const Row rows[] = {
      {"exponential", exponential({count}, 2, d, g), 0.5, 0.25, 0, 20, std::log(2.0) / 2},
      {"gumbel", gumbel({count}, 1, 2, d, g), 1 + 2 * 0.57721566, 4 * pi * pi / 6, -10, 60,
       1 - 2 * std::log(std::log(2.0))},
      {"laplace", laplace({count}, -1, 0.5, d, g), -1, 0.5, -20, 20, -1},
      {"log_normal", log_normal({count}, 0.5, 0.5, d, g), std::exp(0.625), (std::exp(0.25) - 1) * std::exp(1.25), 0, 60,
       std::sqrt(e)},
      {"truncated_normal", truncated_normal({count}, 3, 2, 1, 7, d, g), 3 + 2 * centre,
       4 * (1 + (-a - 2 * b) / mass - centre * centre), 1, 7, 3 + 2 * 0.17116},
      {"randint", cast(randint(-3, 8, {count}, d, g), DType::f32), 2, 10, -3, 7, 2},
  };
  for (const Row& r : rows) {
    const Moments m = moments(r.x);
    EXPECT_NEAR(m.mean, r.mean, 5 * std::sqrt(r.var / count)) << r.name;
    EXPECT_NEAR(m.var, r.var, 0.09 * r.var) << r.name;
    EXPECT_NEAR(m.median, r.median, 0.04 * std::sqrt(r.var)) << r.name;
    EXPECT_GE(m.low, r.low) << r.name;
    EXPECT_LE(m.high, r.high) << r.name;
  }
  const Moments wild = moments(atan(cauchy({count}, 0, 1, d, g)));  // atan of it is uniform
  EXPECT_NEAR(wild.mean, 0, 0.04);
  EXPECT_NEAR(wild.var, pi * pi / 12, 0.05);
}

TEST_P(Distributions, EveryIntegerComesAsOftenAsAnother) {
  const auto counts = bincount(randint(0, 11, {count}, &device(), &generator_), 11).to_vector<int64_t>();
  EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), int64_t{0}), count);
  for (const int64_t c : counts) EXPECT_NEAR(static_cast<double>(c), count / 11.0, 5 * std::sqrt(count / 11.0));
  const Tensor wide = randint(int64_t{1} << 39, int64_t{1} << 40, {500}, &device(), &generator_);
  for (const int64_t v : wide.to_vector<int64_t>()) EXPECT_TRUE(v >= int64_t{1} << 39 && v < int64_t{1} << 40) << v;
}

TEST_P(Distributions, PermutationsHoldEveryNumberOnce) {
  auto first = randperm(1000, &device(), &generator_).to_vector<int64_t>();
  const auto second = randperm(1000, &device(), &generator_).to_vector<int64_t>();
  EXPECT_NE(first, second);
  Generator again{42, 0};
  EXPECT_EQ(randperm(1000, &device(), &again).to_vector<int64_t>(), first);
  std::sort(first.begin(), first.end());
  for (int64_t i = 0; i < 1000; ++i) EXPECT_EQ(first[static_cast<size_t>(i)], i);
  EXPECT_EQ(randperm(0, &device()).numel(), 0);
}

TEST_P(Distributions, ClassesComeByTheirWeights) {
  const std::vector<float> weights = {2, 0, 5, 1, 2};
  const Tensor w = Tensor::from_vector(weights, {5}, &device());
  const auto check = [&](const Tensor& drawn) {
    const auto counts = bincount(drawn, 5).to_vector<double>();
    for (size_t i = 0; i < 5; ++i)
      EXPECT_NEAR(counts[i], weights[i] / 10 * count, 5 * std::sqrt(weights[i] / 10 * count)) << i;
  };
  check(multinomial(w, count, true, &generator_));
  check(categorical(expand(log(w), {count, 5}), -1, &generator_));
  // Without replacement: distinct, and the first is drawn by the weights.
  const Tensor pairs = multinomial(expand(w, {count, 5}), 2, false, &generator_);
  EXPECT_EQ(pairs.shape(), (Shape{count, 2}));
  check(slice(pairs, 1, {.stop = 1}));
  EXPECT_FALSE(any(slice(pairs, 1, {.stop = 1}) == slice(pairs, 1, {.start = 1})).item());
  EXPECT_FALSE(any(pairs == 1).item()) << "weight 0";
}

TEST_P(Distributions, GumbelSoftmaxIsOneHotWithTheSoftGradient) {
  const Tensor logits = Tensor::from_vector<float>({0.5f, -1, 2, 0, 0.1f, 0.2f, 0.3f, 0.4f}, {2, 4}, &device());
  const Tensor weights = Tensor::from_vector<float>({1, 2, 3, 4, -1, 0.5f, 2, 0}, {2, 4}, &device());
  std::vector<std::vector<float>> gradients;
  for (const bool hard : {false, true}) {
    Generator same{7, 0};
    Tensor x = stop_gradient(logits);
    x.set_requires_grad(true);
    const Tensor y = gumbel_softmax(x, 0.7, hard, -1, &same);
    gradients.push_back(grad(sum(y * weights), x).to_vector<float>());
    for (const double s : sum(y, {1}).to_doubles()) EXPECT_NEAR(s, 1, 1e-5);
    if (hard) {
      for (const double v : y.to_doubles()) EXPECT_TRUE(v == 0 || v == 1) << v;
    }
  }
  for (size_t i = 0; i < 8; ++i) EXPECT_NEAR(gradients[0][i], gradients[1][i], 1e-5) << i;
  EXPECT_GT(std::abs(gradients[0][0]), 1e-4);
}

TEST_P(Distributions, GammaAndWhatIsMadeOfIt) {
  Generator* g = &generator_;
  const auto filled = [&](double value) { return full({count}, value, DType::f32, &device()); };
  struct Row {
    const char* name;
    Tensor x;
    double mean, var, low;
  };
  const Row rows[] = {
      {"gamma 3", gamma(filled(3), 2, g), 1.5, 0.75, 0},        {"gamma 0.5", gamma(filled(0.5), 1, g), 0.5, 0.5, 0},
      {"beta", beta(filled(2), filled(3), g), 0.4, 0.04, 0},    {"chi_squared", chi_squared(filled(5), g), 5, 10, 0},
      {"student_t", student_t(filled(9), g), 0, 9.0 / 7, -100}, {"poisson 0.3", poisson(filled(0.3), g), 0.3, 0.3, 0},
      {"poisson 9.9", poisson(filled(9.9), g), 9.9, 9.9, 0},    {"poisson 12", poisson(filled(12), g), 12, 12, 0},
      {"poisson 400", poisson(filled(400), g), 400, 400, 250},
  };
  for (const Row& r : rows) {
    const Moments m = moments(r.x);
    EXPECT_NEAR(m.mean, r.mean, 5 * std::sqrt(r.var / count)) << r.name;
    EXPECT_NEAR(m.var, r.var, 0.12 * r.var) << r.name;
    EXPECT_GE(m.low, r.low) << r.name;
  }
  const Tensor parts =
      dirichlet(Tensor::from_vector<float>({1, 2, 5}, {1, 3}, &device()) + zeros({count, 3}, DType::f32, &device()), g);
  EXPECT_NEAR(moments(sum(parts, {1})).low, 1, 1e-5);
  const std::vector<double> means = mean(parts, {0}).to_doubles();
  for (size_t k = 0; k < 3; ++k) EXPECT_NEAR(means[k], (k == 0 ? 1 : k == 1 ? 2 : 5) / 8.0, 0.01);
}

TEST_P(Distributions, AlphaDropoutKeepsMeanAndVariance) {
  Generator* g = &generator_;
  const Tensor x = normal({count}, 0, 1, &device(), g);
  const Moments m = moments(alpha_dropout(x, 0.3, true, g));
  EXPECT_NEAR(m.mean, 0, 0.05);
  EXPECT_NEAR(m.var, 1, 0.08);
  EXPECT_EQ(alpha_dropout(x, 0.3, false, g).to_doubles(), x.to_doubles());
  const std::vector<double> channels =
      feature_alpha_dropout(ones({64, 4, 5}, DType::f32, &device()), 0.5, true, g).to_doubles();
  for (size_t i = 0; i < channels.size(); ++i) EXPECT_EQ(channels[i], channels[i / 5 * 5]);
}

HEDDLE_DEVICE_TESTS(Distributions);

}  // namespace
}  // namespace heddle::tests
