// What auto_shard sends, beside layers that were cut by hand, and where an operation could be cut in two ways.
#include <gtest/gtest.h>

#include <utility>

#include "heddle/autograd/autograd.h"
#include "heddle/distributed/collectives.h"
#include "heddle/nn/tensor_parallel.h"
#include "tests/distributed/auto_shard_cases.h"
#include "tests/distributed/rank_threads.h"

namespace heddle::distributed {
namespace {

using test::before;
using test::List;
using test::mlp_loss;
using test::mlp_parameters;
using test::on_reference;
using test::with_gradients;

// Bytes that each rank sends for f over its shards of the whole values.
std::vector<uint64_t> sent(const Mesh& mesh, const std::vector<Spec>& specs, const List& whole,
                           const std::function<ShardFunction(World&)>& make) {
  std::vector<uint64_t> bytes(static_cast<size_t>(mesh.ranks()));
  const auto errors = test::run_ranks(mesh.ranks(), [&](World& world) {
    List shards;
    for (size_t i = 0; i < whole.size(); ++i) shards.push_back(Sharding(mesh, specs[i]).shard(whole[i], world.rank()));
    const uint64_t before = world.bytes_sent();
    make(world)(shards);
    bytes[static_cast<size_t>(world.rank())] = world.bytes_sent() - before;
  });
  for (const std::string& error : errors) EXPECT_EQ(error, "");
  return bytes;
}

// The layers of nn/tensor_parallel.h, over weights that are whole on each rank: x, w1, w2 or x, w1, b1, w2, b2.
List by_hand(const List& in, bool data) {
  const bool biased = in.size() == 5;
  nn::ColumnParallelLinear up(in[1], biased ? in[2] : Tensor(), "tp");
  nn::RowParallelLinear down(in[biased ? 3 : 2], biased ? in[4] : Tensor(), "tp");
  const Tensor own = mean(square(down(gelu(up(in[0])))));
  const Tensor loss = data ? pmean(own, "dp") : own;
  backward(loss);
  if (!biased) return {loss, up.weight.grad(), down.weight.grad()};
  return {loss, up.weight.grad(), up.bias.grad(), down.weight.grad(), down.bias.grad()};
}

Tensor unbiased_loss(const List& in) { return mean(square(linear(gelu(linear(in[0], in[1], {})), in[2], {}))); }

using BothSent = std::pair<std::vector<uint64_t>, std::vector<uint64_t>>;
// By auto_shard and by hand.
BothSent both_sent(const Mesh& mesh, const Spec& rows, const std::vector<Spec>& parameters, const List& in,
                   const ShardFunction& f, bool data) {
  const std::vector<Spec> cut = before(rows, parameters), results = before(Spec{}, parameters);
  const std::vector<Spec> whole = before(rows, std::vector<Spec>(parameters.size()));
  const auto manual = [data](const List& given) { return by_hand(given, data); };
  return {sent(mesh, cut, in, [&](World& world) { return auto_shard(f, world, mesh, cut, results); }),
          sent(mesh, whole, in, [&](World& world) { return shard_map(manual, world, mesh, whole, results); })};
}

// Of biases the gradient's sum over the rows is sent.
TEST(AutoShardBytes, AreThoseOfLayersCutByHand) {
  const List in = {on_reference({8, 6}, 1), on_reference({12, 6}, 2), on_reference({12}, 3), on_reference({4, 12}, 4),
                   on_reference({4}, 5)};
  const auto [automatic, manual] =
      both_sent(Mesh({{"tp", 2}}, 2), Spec{}, mlp_parameters, in, with_gradients(mlp_loss), false);
  EXPECT_GT(manual[0], 0u);
  EXPECT_EQ(automatic, manual);
  const Mesh both({{"dp", 2}, {"tp", 2}}, 4);
  const auto [without_bias, layers] = both_sent(both, Spec{{"dp"}}, {mlp_parameters[0], mlp_parameters[2]},
                                                {in[0], in[1], in[3]}, with_gradients(unbiased_loss), true);
  EXPECT_EQ(without_bias, layers);
  const auto [with_bias, biased] = both_sent(both, Spec{{"dp"}}, mlp_parameters, in, with_gradients(mlp_loss), true);
  EXPECT_EQ(with_bias, biased);
}

// A product of rows and columns along one axis: the smaller operand is gathered, unless a constraint says otherwise.
TEST(AutoShardBytes, DecideConflicts) {
  const Mesh mesh({{"a", 2}}, 2);
  const List in = {on_reference({40, 4}, 1), on_reference({4, 6}, 2)};
  const std::vector<Spec> specs = {Spec{{"a"}}, Spec{{{}, "a"}}};
  const auto bytes = [&](const Spec& out, bool pinned) {
    return sent(mesh, specs, in, [&, pinned](World& world) {
      return auto_shard(
          [pinned](const List& given) {
            const Tensor x = pinned ? constrain(given[0], Spec{}) : given[0];
            return List{matmul(x, given[1])};
          },
          world, mesh, specs, {out});
    })[0];
  };
  const uint64_t weights = 4 * 6 * 8 / 2, rows = 40 * 4 * 8 / 2, header = 1000;
  EXPECT_GE(bytes(Spec{{"a"}}, false), weights);
  EXPECT_LT(bytes(Spec{{"a"}}, false), weights + header);
  EXPECT_GE(bytes(Spec{{{}, "a"}}, true), rows);
  const List got = auto_shard([](const List& given) { return List{matmul(constrain(given[0], Spec{}), given[1])}; },
                              mesh, specs, {Spec{{{}, "a"}}})(in);
  const std::vector<double> a = got[0].to_doubles(), b = matmul(in[0], in[1]).to_doubles();
  for (size_t i = 0; i < b.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-12);
  EXPECT_EQ(constrain(in[0], Spec{{"a"}}).node(), in[0].node());  // outside it is nothing
}

}  // namespace
}  // namespace heddle::distributed
