// Experts in parts over ranks against the same mixture whole: results, the routers' losses and all gradients, in f64 on
// the reference device and in f32 on the others; and a hundred steps of AdamW.
#include "heddle/nn/expert_parallel.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "heddle/autograd/autograd.h"
#include "heddle/core/base/error.h"
#include "heddle/core/device/context.h"
#include "heddle/distributed/collectives.h"
#include "heddle/distributed/shard_map.h"
#include "heddle/nn/optim.h"
#include "tests/distributed/ranks_by_hand.h"
#include "tests/distributed/values_test.h"
#include "tests/support/device_test.h"
#include "tests/support/devices.h"
#include "tests/support/expect_error.h"

namespace heddle::nn {
namespace {

using distributed::Mesh;
using distributed::shard_map;
using distributed::Spec;
using distributed::test::drawn;
using distributed::test::List;
using tests::expect_error;

constexpr int64_t features = 3, hidden = 4;

// Of these parameters: router (experts, features), up (experts, hidden, features), down (experts, features, hidden).
MixtureOfExperts mixture_of(const Tensor& router, const Tensor& up, const Tensor& down, double factor) {
  class Given : public MixtureOfExperts {
   public:
    Given(const MixtureOptions& o, const List& in)
        : MixtureOfExperts("MixtureOfExperts", o, Linear(in[0]), in[1], in[2]) {}
  };
  return Given({.experts = router.dim(0), .top_k = 2, .capacity_factor = factor},
               {router.detach(), up.detach(), down.detach()});
}

class ExpertParallel : public distributed::test::ValuesTest {
 protected:
  List parameters(int64_t experts) const {
    return {numbers({experts, features}, 2) * 2, numbers({experts, hidden, features}, 3),
            numbers({experts, features, hidden}, 4)};
  }
};

// Loss, result and gradients, of x's rows here.
List differentiated(MixtureOfExperts& mixture, const Tensor& x, const std::vector<std::string>& axes) {
  Tensor rows = x.detach();
  if (!axes.empty()) distributed::set_varying(rows, axes);
  rows.set_requires_grad();
  const RoutingScope routing;
  const Tensor y = mixture(rows);
  const Tensor own = mean(square(y + rows));
  const Tensor loss =
      (axes.empty() ? own : distributed::pmean(own, axes)) + routing.balance() * 0.1 + routing.z() * 0.01;
  backward(loss);
  return {
      loss, y, rows.grad(), mixture.router.weight.grad(), mixture.up.grad(), mixture.down.grad(), routing.dropped()};
}

// Eight experts on four ranks, and on two of each two ranks that have other tokens.
TEST_P(ExpertParallel, IsTheWholeMixture) {
  for (const auto& [text, tokens] : {std::pair("ep=4", std::vector<std::string>{"ep"}),
                                     std::pair("dp=2,ep=2", std::vector<std::string>{"dp", "ep"})}) {
    SCOPED_TRACE(text);
    const Mesh mesh = Mesh::parse(text, 4);
    List in = parameters(8);
    in.push_back(numbers({4, 5, features}, 1));
    const Spec rows{{tokens}}, experts{{"ep"}};
    const auto program = [tokens = tokens](const List& given) {
      const MixtureOfExperts whole = mixture_of(given[0], given[1], given[2], std::numeric_limits<double>::infinity());
      ExpertParallelMixture mine(whole, "ep");
      return differentiated(mine, given[3], tokens);
    };
    const List got = shard_map(program, mesh, {Spec{}, Spec{}, Spec{}, rows},
                               {Spec{}, rows, rows, Spec{}, experts, experts, Spec{}})(in);
    MixtureOfExperts whole = mixture_of(in[0], in[1], in[2], std::numeric_limits<double>::infinity());
    const List wanted = differentiated(whole, in[3], {});
    const char* names[] = {"loss", "result", "gradient of x", "of the router", "of up", "of down", "dropped"};
    for (size_t i = 0; i < wanted.size(); ++i) expect_same(got[i], wanted[i], names[i]);
    EXPECT_EQ(got[6].item(), 0);
  }
}

// Places are counted on each rank: the same as mixtures of the ranks' own tokens.
TEST_P(ExpertParallel, DropsAsEachRankByItself) {
  const Mesh mesh({{"ep", 2}}, 2);
  List in = parameters(4);
  in.push_back(numbers({12, features}, 1));
  const auto program = [](const List& given) {
    ExpertParallelMixture mine(mixture_of(given[0], given[1], given[2], 0.7), "ep");
    const RoutingScope routing;
    const Tensor y = mine(given[3]);
    return List{y, routing.dropped()};
  };
  const List got = shard_map(program, mesh, {Spec{}, Spec{}, Spec{}, Spec{{"ep"}}}, {Spec{{"ep"}}, Spec{}})(in);
  MixtureOfExperts whole = mixture_of(in[0], in[1], in[2], 0.7);
  const RoutingScope routing;
  const List parts = {whole(slice(in[3], 0, {.start = 0, .stop = 6})),
                      whole(slice(in[3], 0, {.start = 6, .stop = 12}))};
  expect_same(got[0], concat(parts, 0), "result");
  EXPECT_GT(got[1].item(), 0);
  expect_same(got[1], routing.dropped(), "dropped");
}

// Each rank's tokens are a batch by itself, by the same experts: losses and gradients are those of the whole mixture
// over that rank's tokens.
TEST_P(ExpertParallel, GivesGradientsByTheRankThatSentTheRows) {
  List in = parameters(8);
  in.push_back(numbers({12, features}, 1));
  const auto own_loss = [](MixtureOfExperts& mixture, const Tensor& rows) {
    const RoutingScope routing;
    const Tensor own = mean(square(mixture(rows) + rows));
    return own + routing.balance() * 0.1 + routing.z() * 0.01;
  };
  const auto program = [&](const List& given) {
    ExpertParallelMixture mine(mixture_of(given[0], given[1], given[2], 1.1), "ep");
    mine.begin_apart();
    const Tensor loss = own_loss(mine, given[3]);
    backward(loss);
    EXPECT_FALSE(mine.up.grad().defined());
    return List{reshape(loss, {1}), mine.apart().up.grad(), mine.apart().down.grad()};
  };
  const Spec cut{{{}, "ep"}};
  const List got =
      shard_map(program, Mesh({{"ep", 4}}, 4), {Spec{}, Spec{}, Spec{}, Spec{{"ep"}}}, {Spec{{"ep"}}, cut, cut})(in);
  List losses, up, down;
  for (int64_t rank = 0; rank < 4; ++rank) {
    MixtureOfExperts whole = mixture_of(in[0], in[1], in[2], 1.1);
    const Tensor loss = own_loss(whole, slice(in[3], 0, {.start = 3 * rank, .stop = 3 * rank + 3}));
    backward(loss);
    losses.push_back(loss.detach());
    up.push_back(whole.up.grad());
    down.push_back(whole.down.grad());
  }
  expect_same(got[0], stack(losses), "losses");
  expect_same(got[1], stack(up), "gradient of up");
  expect_same(got[2], stack(down), "gradient of down");
}

INSTANTIATE_TEST_SUITE_P(Devices, ExpertParallel, testing::ValuesIn(heddle::test::value_devices()),
                         tests::device_test_name);

// Row 13 of the scale-out issue: losses of a hundred steps, and what a rank keeps of the experts.
TEST(ExpertParallelTraining, FollowsTheWholeMixture) {
  DeviceContext& d = heddle::device("reference:0");
  const auto of = [&](const Shape& shape, uint32_t seed) { return drawn(shape, seed, DType::f32, d); };
  const List in = {of({8, features}, 2), of({8, hidden, features}, 3), of({8, features, hidden}, 4),
                   of({16, features}, 1)};
  const auto train = [](MixtureOfExperts& mixture, const Tensor& x, const auto& over_ranks) {
    AdamW adam(mixture.parameters(), 0.01);
    List losses;
    for (int step = 0; step < 100; ++step) {
      adam.zero_grad();
      const RoutingScope routing;
      const Tensor own = over_ranks(mean(square(mixture(x) - sin(x * 3))));
      const Tensor loss = own + routing.balance() * 0.01;
      backward(loss);
      adam.step();
      losses.push_back(loss.detach());
      eval({loss});
    }
    return stack(losses);
  };
  const auto program = [&](const List& given) {
    const MixtureOfExperts whole = mixture_of(given[0], given[1], given[2], 4);
    ExpertParallelMixture mine(whole, "ep");
    EXPECT_LE(mine.up.numel() + mine.down.numel(), 0.26 * static_cast<double>(whole.up.numel() + whole.down.numel()));
    return List{train(mine, given[3], [](const Tensor& loss) { return distributed::pmean(loss, "ep"); })};
  };
  const List got = shard_map(program, Mesh({{"ep", 4}}, 4), {Spec{}, Spec{}, Spec{}, Spec{{"ep"}}}, {Spec{}})(in);
  MixtureOfExperts whole = mixture_of(in[0], in[1], in[2], 4);
  const std::vector<double> wanted = train(whole, in[3], [](const Tensor&loss) { return loss; }).to_doubles(),
                            losses = got[0].to_doubles();
  ASSERT_EQ(losses.size(), 100u);
  EXPECT_LT(losses[99], 0.5 * losses[0]);
  for (size_t i = 0; i < losses.size(); ++i)
    EXPECT_NEAR(losses[i], wanted[i], (i < 10 ? 1e-5 : 1e-4) * wanted[i]) << "step " << i;
}

TEST(ExpertParallelErrors, NameTheLayer) {
  const MixtureOfExperts mixture(3, 4, {.experts = 3, .device = heddle::device("reference:0")});
  const auto run = [&](const char* axis) {
    shard_map([&](const List& in) { return List{ExpertParallelMixture(mixture, axis)(in[0])}; }, Mesh({{"ep", 2}}, 2),
              {Spec{{"ep"}}}, {Spec{{"ep"}}})({drawn({4, 3}, 1, DType::f32, heddle::device("reference:0"))});
  };
  expect_error<ShapeError>([&] { run("ep"); },
                           {"[ExpertParallelMixture] the 2 ranks along 'ep' do not divide axis 0 of (3, "});
  expect_error<AxisError>([&] { run("pp"); }, {"[ExpertParallelMixture] the mesh ep=2 has no axis 'pp'"});
  expect_error<AxisError>([&] { ExpertParallelMixture(mixture, "ep"); }, {"[ExpertParallelMixture] there is no mesh"});
}

}  // namespace
}  // namespace heddle::nn
