// A mixture of experts against loops over its formula in double precision, on every device that gives values: results,
// what its router adds to the loss, and who is dropped; gradients by finite differences in f64, and those of devices
// against them.
#include "heddle/nn/mixture_of_experts.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "heddle/autograd/autograd.h"
#include "heddle/autograd/gradcheck.h"
#include "heddle/core/graph/autocast.h"
#include "heddle/core/graph/checkpoint.h"
#include "heddle/nn/models/gpt.h"
#include "tests/nn/support.h"
#include "tests/support/value_test.h"

namespace heddle::tests {
namespace {

constexpr int64_t width = 3, hidden = 5;

Values wave(size_t count, double frequency) {
  Values values(count);
  for (size_t i = 0; i < count; ++i) values[i] = std::sin(frequency * (static_cast<double>(i) + 1));
  return values;
}

// What a mixture is made of: (tokens, width), (experts, width), (experts, hidden, width), (experts, width, hidden).
struct Given {
  int64_t tokens, experts, picks;
  double factor;
  Values x, router, up, down;

  Given(int64_t n, int64_t e, int64_t k, double capacity_factor)
      : tokens(n),
        experts(e),
        picks(k),
        factor(capacity_factor),
        x(wave(size_t(n * width), 1.3)),
        router(wave(size_t(e * width), 0.7)),
        up(wave(size_t(e * hidden * width), 0.37)),
        down(wave(size_t(e * width * hidden), 0.53)) {}
};

struct Wanted {
  Values y;
  double balance = 0, z = 0, dropped = 0;
};

Values products(const double* rows, const double* x, int64_t count, int64_t size) {
  Values y(static_cast<size_t>(count));
  for (int64_t r = 0; r < count; ++r) y[size_t(r)] = std::inner_product(x, x + size, rows + r * size, 0.0);
  return y;
}

// y += weight * the expert's MLP.
void add_expert(const Given& g, int64_t expert, const double* x, double weight, double* y) {
  Values inner = products(g.up.data() + expert * hidden * width, x, hidden, width);
  for (double& v : inner) v = v > 0 ? v : 0;
  const Values outer = products(g.down.data() + expert * width * hidden, inner.data(), width, hidden);
  for (int64_t i = 0; i < width; ++i) y[i] += weight * outer[size_t(i)];
}

Wanted by_hand(const Given& g, bool training) {
  Wanted wanted;
  wanted.y.resize(g.x.size());
  const double even = double(g.tokens * g.picks) / double(g.experts);
  const double places = training ? std::min(std::ceil(g.factor * even), double(g.tokens)) : double(g.tokens);
  Values taken(size_t(g.experts)), shares(size_t(g.experts)), picked(size_t(g.experts));
  for (int64_t n = 0; n < g.tokens; ++n) {
    const double* x = g.x.data() + n * width;
    const Values logits = products(g.router.data(), x, g.experts, width);
    std::vector<int64_t> order(size_t(g.experts));
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](int64_t a, int64_t b) { return logits[size_t(a)] > logits[size_t(b)]; });
    double all = 0, chosen = 0;
    for (int64_t i = 0; i < g.experts; ++i) {
      const double exponential = std::exp(logits[size_t(order[size_t(i)])]);
      all += exponential;
      if (i < g.picks) chosen += exponential;
    }
    wanted.z += std::log(all) * std::log(all) / double(g.tokens);
    for (int64_t e = 0; e < g.experts; ++e) shares[size_t(e)] += std::exp(logits[size_t(e)]) / all / double(g.tokens);
    for (int64_t i = 0; i < g.picks; ++i) {
      const int64_t e = order[size_t(i)];
      picked[size_t(e)] += 1 / double(g.tokens * g.picks);
      const bool here = taken[size_t(e)]++ < places;
      if (!here) wanted.dropped += 1 / double(g.tokens * g.picks);
      const double weight = std::exp(logits[size_t(e)]) / (g.picks == 1 ? all : chosen);
      if (here) add_expert(g, e, x, weight, wanted.y.data() + n * width);
    }
  }
  for (int64_t e = 0; e < g.experts; ++e) wanted.balance += double(g.experts) * picked[size_t(e)] * shares[size_t(e)];
  return wanted;
}

class MixtureOfExperts : public ValueTest {
 protected:
  bool exact() const { return GetParam() == "reference:0"; }
  DType dtype() const { return exact() ? DType::f64 : DType::f32; }
  Tensor tensor(const Values& values, const Shape& shape) const {
    return Tensor::from_vector(values, shape, &device()).to(dtype());
  }
  nn::MixtureOfExperts made(const Given& g) const {
    nn::MixtureOfExperts mixture(width, hidden,
                                 {.experts = g.experts,
                                  .top_k = g.picks,
                                  .capacity_factor = g.factor,
                                  .activation = nn::Activation::relu,
                                  .device = device()});
    mixture.router.weight.assign(tensor(g.router, {g.experts, width}).to(DType::f32));
    mixture.up.assign(tensor(g.up, {g.experts, hidden, width}).to(DType::f32));
    mixture.down.assign(tensor(g.down, {g.experts, width, hidden}).to(DType::f32));
    return mixture;
  }
  Tensor tokens(const Given& g) const { return tensor(g.x, {g.tokens, width}); }

  void expect_formula(const Given& g, bool training) {
    SCOPED_TRACE(testing::Message() << g.tokens << " tokens, " << g.experts << " experts, " << g.picks << " picks, "
                                    << g.factor << (training ? "" : ", evaluation"));
    nn::MixtureOfExperts mixture = made(g);
    mixture.train(training);
    const nn::RoutingScope routing;
    const Tensor y = mixture(tokens(g));
    const Wanted wanted = by_hand(g, training);
    expect_near(y, wanted.y, 2e-5);
    ASSERT_EQ(routing.count(), 1u);
    expect_near(routing.balance(), {wanted.balance}, 2e-5);
    expect_near(routing.z(), {wanted.z}, 2e-5);
    expect_near(routing.dropped(), {wanted.dropped}, 1e-6);
  }
};

// Some on every device, whose kernels take a while to compile; the rest on the reference.
TEST_P(MixtureOfExperts, IsItsFormula) {
  std::vector<Given> all = {Given(50, 5, 2, 0.8), Given(5, 4, 1, 0.5)};
  if (exact()) {
    for (const Given& g : {Given(7, 3, 2, 1), Given(6, 4, 4, 1), Given(6, 3, 3, infinity), Given(1, 6, 2, 1.25),
                           Given(9, 1, 1, 0.5), Given(4, 3, 2, 0)})
      all.push_back(g);
  }
  for (const Given& g : all) expect_formula(g, true);
  if (exact()) {
    for (const Given& g : all) expect_formula(g, false);
  }
}

// A router of zeros: all logits are equal, so lower numbers are taken, and the other experts get no token.
TEST_P(MixtureOfExperts, TakesLowerNumbersOfEqualOnes) {
  Given g(6, 4, 2, 1);
  std::fill(g.router.begin(), g.router.end(), 0.0);
  expect_formula(g, true);
  const nn::RoutingScope routing;
  made(g)(tokens(g));
  expect_near(routing.dropped(), {0.5}, 1e-6);  // 2 experts with 3 places each for 12 picks
}

TEST_P(MixtureOfExperts, TakesNoTokensAndKeepsNaNsApart) {
  Given g(4, 3, 2, infinity);
  nn::MixtureOfExperts mixture = made(g);
  const nn::RoutingScope routing;
  EXPECT_EQ(mixture(tensor({}, {2, 0, width})).shape(), (Shape{2, 0, width}));
  EXPECT_EQ(routing.count(), 0u);
  expect_error<ValueError>([&] { routing.balance(); }, {"[RoutingScope] no mixture was called"});
  const std::vector<double> clean = mixture(tokens(g)).to_doubles();
  g.x[width] = std::numeric_limits<double>::quiet_NaN();
  const std::vector<double> y = mixture(tokens(g)).to_doubles();
  for (size_t i = 0; i < y.size(); ++i) {
    if (i / width == 1)
      EXPECT_TRUE(std::isnan(y[i])) << i;
    else
      EXPECT_EQ(y[i], clean[i]) << i;
  }
}

// Gradients of the result and of the router's two losses, against those of the reference.
TEST_P(MixtureOfExperts, HasTheGradientsOfTheReference) {
  const Given g(23, 4, 2, 0.9);
  const auto gradients = [&](DeviceContext& where, DType t) {
    nn::MixtureOfExperts mixture = made(g);
    mixture.to(where);
    Tensor x = Tensor::from_vector(g.x, {g.tokens, width}, &where).to(t).detach();
    x.set_requires_grad();
    const nn::RoutingScope routing;
    const Tensor y = mixture(x);
    backward(mean(square(y)) + routing.balance() * 0.1 + routing.z() * 0.1);
    return std::vector<Tensor>{x.grad(), mixture.router.weight.grad(), mixture.up.grad(), mixture.down.grad()};
  };
  const std::vector<Tensor> got = gradients(device(), DType::f32), wanted = gradients(reference(), DType::f64);
  for (size_t i = 0; i < got.size(); ++i) {
    SCOPED_TRACE(i);
    expect_near(got[i], wanted[i].to_doubles(), 2e-6);
  }
}

// A block that is computed again for its gradient finds the same, and its losses have their gradients.
TEST_P(MixtureOfExperts, PassesCheckpoints) {
  const Given g(11, 3, 2, 0.9);
  const auto gradient = [&](bool again) {
    nn::MixtureOfExperts mixture = made(g);
    const nn::RoutingScope routing;
    const Tensor y = again ? checkpoint(mixture, tokens(g)) : mixture(tokens(g));
    backward(mean(square(y)) + routing.balance() + routing.z());
    return concat({flatten(mixture.router.weight.grad()), flatten(mixture.up.grad())}, 0).to_doubles();
  };
  EXPECT_EQ(gradient(true), gradient(false));
}

// Under autocast the router computes in f32: the same experts as without it.
TEST_P(MixtureOfExperts, RoutesInF32UnderAutocast) {
  const Given g(40, 4, 2, 0.7);
  nn::MixtureOfExperts mixture = made(g);
  const Tensor x = tokens(g).to(DType::f32);
  const nn::RoutingScope routing;
  const AutocastScope low(DType::bf16);
  const Tensor y = mixture(x);
  expect_near(routing.balance(), {by_hand(g, true).balance}, 2e-5);
  expect_near(y, by_hand(g, true).y, 0.1);
}

HEDDLE_VALUE_TESTS(MixtureOfExperts);

// A mixture over parameters that are there.
class OverGiven : public nn::MixtureOfExperts {
 public:
  OverGiven(const nn::MixtureOptions& o, const Tensor& routes, const Tensor& first, const Tensor& second)
      : nn::MixtureOfExperts("OverGiven", o, nn::Linear(routes), first, second) {}
};

TEST(MixtureOfExpertsGradients, AreThoseOfFiniteDifferences) {
  for (const Given& g : {Given(5, 3, 2, 0.8), Given(4, 3, 1, infinity), Given(3, 2, 2, 1)}) {
    const auto leaf = [](const Values& values, const Shape& shape) {
      return Tensor::from_vector(values, shape, &reference());
    };
    const std::vector<Tensor> inputs = {leaf(g.x, {g.tokens, width}), leaf(g.router, {g.experts, width}),
                                        leaf(g.up, {g.experts, hidden, width}),
                                        leaf(g.down, {g.experts, width, hidden})};
    const GradcheckResult result = gradcheck(
        [&](std::span<const Tensor> in) {
          OverGiven mixture({.experts = g.experts,
                             .top_k = g.picks,
                             .capacity_factor = g.factor,
                             .activation = nn::Activation::gelu_tanh},
                            in[1], in[2], in[3]);
          const nn::RoutingScope routing;
          const Tensor y = mixture(in[0]);
          return std::vector<Tensor>{y, routing.balance(), routing.z()};
        },
        inputs);
    EXPECT_TRUE(result.ok) << result.message;
  }
}

TEST(MixtureOfExpertsErrors, NameWhatIsWrong) {
  const auto make = [](const nn::MixtureOptions& o) { nn::MixtureOfExperts(4, 8, o); };
  DeviceContext& d = reference();
  expect_error<ValueError>([&] { make({.experts = 0, .device = d}); }, {"[MixtureOfExperts] experts is 0"});
  expect_error<ValueError>([&] { make({.experts = 4, .top_k = 5, .device = d}); },
                           {"[MixtureOfExperts] top_k is 5; it must be 1 to 4, the number of experts"});
  expect_error<ValueError>([&] { make({.capacity_factor = -1, .device = d}); },
                           {"[MixtureOfExperts] capacity_factor is -1; it must be 0 or above"});
  expect_error<ValueError>([&] { make({.capacity_factor = std::nan(""), .device = d}); }, {"capacity_factor is nan"});
  nn::MixtureOfExperts mixture(4, 8, {.device = d});
  expect_error<ShapeError>(
      [&] {
        mixture(f32(Values(6), {2, 3}));
      },
      {"[MixtureOfExperts] input (2, 3) f32; expected floats (..., 4)"});
  expect_error<ValueError>(
      [&] { nn::Gpt({.vocabulary = 5, .context = 4, .layers = 1, .heads = 1, .width = 4, .experts = 2, .top_k = 3}); },
      {"[Gpt] top_k is 3; it must be 1 to 2, the number of experts"});
}

}  // namespace
}  // namespace heddle::tests
