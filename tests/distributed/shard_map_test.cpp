// shard_map: shards of whole values and back, programs of simulated and of real worlds, what they refuse.
#include "heddle/distributed/shard_map.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <mutex>

#include "heddle/autograd/transforms.h"
#include "heddle/core/base/error.h"
#include "heddle/core/device/context.h"
#include "heddle/distributed/collectives.h"
#include "heddle/distributed/errors.h"
#include "tests/distributed/rank_threads.h"
#include "tests/distributed/ranks_by_hand.h"
#include "tests/support/device_test.h"
#include "tests/support/devices.h"
#include "tests/support/expect_error.h"

namespace heddle::distributed {
namespace {

using test::drawn;
using test::List;
using tests::expect_error;

DeviceContext& reference() { return heddle::device("reference:0"); }

TEST(Sharding, PartsAreTheWholeAgain) {
  const Mesh mesh({{"dp", 2}, {"tp", 3}}, 6);
  const Tensor x = drawn(Shape{6, 4, 6}, 1, DType::f64, reference());
  for (const Spec& spec : {Spec{}, Spec{{"dp"}}, Spec{{{}, "dp", "tp"}}, Spec{{{"dp", "tp"}}}, Spec{{{"tp", "dp"}}},
                           Spec{{"tp", {}, "dp"}}}) {
    const Sharding sharding(mesh, spec);
    SCOPED_TRACE(sharding.str());
    List parts;
    for (int rank = 0; rank < 6; ++rank) {
      parts.push_back(sharding.shard(x, rank));
      EXPECT_EQ(parts.back().shape(), sharding.shard_shape(x.shape()));
    }
    EXPECT_EQ(sharding.join(parts).to_doubles(), x.to_doubles());
  }
  // dp is the outer axis of dp+tp: rank 3 (dp=1, tp=0) has the fourth of six rows; of tp+dp it has the second.
  EXPECT_EQ(Sharding(mesh, Spec{{{"dp", "tp"}}}).shard(x, 3).to_doubles(), slice(x, 0, {3, 4, 1}).to_doubles());
  EXPECT_EQ(Sharding(mesh, Spec{{{"tp", "dp"}}}).shard(x, 3).to_doubles(), slice(x, 0, {1, 2, 1}).to_doubles());
}

TEST(Sharding, PartialValuesAreAdded) {
  const Mesh mesh({{"dp", 2}, {"tp", 2}}, 4);
  const Sharding sharding(mesh, Spec{.dims = {"dp"}, .partial = {"tp"}});
  EXPECT_EQ(sharding.str(), "(dp) partial tp");
  List parts;
  for (double v : {1, 10, 100, 1000}) parts.push_back(full({1}, v, DType::f64, &reference()));
  EXPECT_EQ(sharding.join(parts).to_doubles(), (std::vector<double>{11, 1100}));
  expect_error<ValueError>([&] { sharding.shard(parts[0], 0); }, {"[sharding] (dp) partial tp"});
}

TEST(Sharding, RefusesWhatDoesNotFit) {
  const Mesh mesh({{"dp", 2}, {"tp", 3}}, 6);
  const Tensor x = drawn(Shape{6, 4}, 1, DType::f64, reference());
  expect_error<ValueError>([&] { Sharding(mesh, Spec{{"pp"}}); }, {"[mesh] dp=2,tp=3 has no axis 'pp'"});
  expect_error<ValueError>(
      [&] {
        Sharding(mesh, Spec{{"dp", "dp"}});
      },
      {"[sharding] (dp, dp) names the axis 'dp' twice"});
  expect_error<ShapeError>(
      [&] {
        Sharding(mesh, Spec{{{}, "tp"}}).shard(x, 0);
      },
      {"[sharding] 3 ranks do not divide axis 1 of (6, 4), as (-, tp) of dp=2,tp=3 asks"});
  expect_error<ShapeError>(
      [&] {
        Sharding(mesh, Spec{{{}, {}, "tp"}}).shard(x, 0);
      },
      {"names 3 dimensions; (6, 4) has 2"});
  expect_error<ValueError>([&] { Sharding(mesh, Spec{}).join(List{x}); }, {"1 parts for the 6 ranks"});
}

class ShardMap : public testing::TestWithParam<std::string> {
 protected:
  DeviceContext& device() const { return heddle::device(GetParam()); }
  DType dtype() const { return GetParam() == "reference:0" ? DType::f64 : DType::f32; }
  double near() const { return GetParam() == "reference:0" ? 1e-12 : 1e-5; }
};

// Data parallelism is nothing but types: the gradient of a shared weight by each rank's rows is that of all rows. Rows
// are weighed, so that uneven parts would count right.
TEST_P(ShardMap, TrainsDataParallel) {
  const Mesh mesh({{"dp", 4}}, 4);
  const Tensor x = drawn(Shape{8, 3}, 1, dtype(), device()), w = drawn(Shape{3, 5}, 2, dtype(), device());
  const auto loss = [](const Tensor& rows, const Tensor& weight) { return mean(square(sin(matmul(rows, weight)))); };
  const auto program = [&](const List& in) {
    const auto all = [&](const Tensor& weight) { return pmean(loss(in[0], weight), "dp"); };
    return List{all(in[1]), grad(all)(in[1])};
  };
  const List got = shard_map(program, mesh, {Spec{{"dp"}}, Spec{}}, {Spec{}, Spec{}})({x, w});
  const auto whole = [&](const Tensor& weight) { return loss(x, weight); };
  EXPECT_NEAR(got[0].item(), whole(w).item(), near());
  const std::vector<double> a = got[1].to_doubles(), b = grad(whole)(w).to_doubles();
  for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], near()) << i;
}

TEST_P(ShardMap, ValuesThatAreNoNumbersAndEmptyOnes) {
  const Mesh mesh({{"tp", 2}}, 2);
  const Tensor x = cast(Tensor::from_vector(std::vector<double>{1, NAN, 3, INFINITY}, Shape{2, 2}, &device()), dtype());
  const Tensor none = zeros({2, 0}, dtype(), &device());
  const auto program = [](const List& in) {
    return List{psum(in[0], "tp"), pmax(in[0], "tp"), all_gather(in[1], "tp"), psum(in[1], "tp")};
  };
  const List got =
      shard_map(program, mesh, {Spec{{"tp"}}, Spec{{"tp"}}}, {Spec{}, Spec{}, Spec{{"tp"}}, Spec{}})({x, none});
  const std::vector<double> sums = got[0].to_doubles(), most = got[1].to_doubles();
  EXPECT_EQ(sums[0], 4);
  EXPECT_TRUE(std::isnan(sums[1]));
  EXPECT_EQ(most[0], 3);
  EXPECT_TRUE(std::isnan(most[1]));
  EXPECT_EQ(got[2].shape(), (Shape{4, 0}));
  EXPECT_EQ(got[3].shape(), (Shape{1, 0}));
}

// A rank decides by its place what to look at and when: calls stay in step.
TEST_P(ShardMap, RanksMayLookAtDifferentValuesAtDifferentTimes) {
  const Mesh mesh({{"dp", 3}}, 3);
  const Tensor x = drawn(Shape{3, 2}, 1, dtype(), device());
  const auto program = [](const List& in) {
    const double place = axis_index("dp", &in[0].device()).item();
    Tensor y = in[0];
    for (int i = 0; i < 5; ++i) {
      const Tensor unused = pmax(y * 3, "dp");
      y = y + psum(y, "dp") / 8.0;
      if (i % 3 == static_cast<int>(place)) y.to_doubles();
      if (i == 4 && place == 1) unused.to_doubles();
    }
    return List{y};
  };
  const std::vector<double> got = shard_map(program, mesh, {Spec{{"dp"}}}, {Spec{{"dp"}}})({x})[0].to_doubles();
  Tensor y = x;
  for (int i = 0; i < 5; ++i) y = y + sum(y, {0}, true) / 8.0;
  const std::vector<double> expected = y.to_doubles();
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], near() * (1 + std::abs(expected[i]))) << i;
}

INSTANTIATE_TEST_SUITE_P(Devices, ShardMap, testing::ValuesIn(heddle::test::value_devices()), tests::device_test_name);

TEST(ShardMapErrors, AreTheOnesOfTheRankThatFailed) {
  const Mesh mesh({{"dp", 3}}, 3);
  const Tensor x = drawn(Shape{3, 2}, 1, DType::f64, reference());
  const std::vector<Spec> rows{Spec{{"dp"}}}, copies{Spec{}};
  expect_error<AxisError>([&] { shard_map([](const List& in) { return List{in[0] * 2}; }, mesh, rows, copies)({x}); },
                          {"[shard_map] result 0, 'mul' (1, 2) (shard_map_test.cpp:",
                           "varies along 'dp', which its Spec () does not name"});
  expect_error<ValueError>(
      [&] {
        shard_map([](const List& in) { return in; }, mesh, rows, copies)({x, x});
      },
      {"[shard_map] 2 arguments, but 1 Specs"});
  expect_error<ValueError>(
      [&] {
        shard_map([](const List& in) { return List{in[0], in[0]}; }, mesh, rows, rows)({x});
      },
      {"[shard_map] 2 results, but 1 Specs"});
  expect_error<ValueError>([&] { shard_map([](const List& in) { return in; }, mesh, rows, copies)({Tensor()}); },
                           {"[shard_map] argument 0 is undefined"});
  // One rank fails by itself while the others wait for it.
  const auto one_fails = [](const List& in) {
    if (axis_index("dp", &in[0].device()).item() == 1) throw ShapeError("[mine] no");
    return List{psum(in[0], "dp")};
  };
  expect_error<ShapeError>([&] { shard_map(one_fails, mesh, rows, copies)({x}); }, {"[mine] no"});
  // Ranks that call differently are listed with their lines.
  const auto differ = [](const List& in) {
    return axis_index("dp", &in[0].device()).item() == 2 ? List{pmax(in[0], "dp")} : List{psum(in[0], "dp")};
  };
  expect_error<MismatchError>([&] { shard_map(differ, mesh, rows, copies)({x}); },
                              {"all_reduce sum f64 (1, 2) (shard_map_test.cpp:", "all_reduce max f64"});
}

// In a real world each rank brings its shards; here its processes are threads.
TEST(ShardMapInAWorld, EachRankRunsOnItsShards) {
  const Mesh mesh({{"dp", 2}, {"tp", 2}}, 4);
  const Tensor x = drawn(Shape{4, 6}, 1, DType::f64, reference()), w = drawn(Shape{6, 2}, 2, DType::f64, reference());
  const Sharding of_x(mesh, Spec{{"dp", "tp"}}), of_w(mesh, Spec{{"tp"}});
  eval({x, w});
  const std::vector<double> expected = matmul(x, w).to_doubles();
  std::mutex mutex;
  std::map<int, std::vector<double>> got;
  test::all_ranks(4, [&](World& world) {
    const auto product = [](const List& in) { return List{psum(matmul(in[0], in[1]), "tp")}; };
    const auto f = shard_map(product, world, mesh, {Spec{{"dp", "tp"}}, Spec{{"tp"}}}, {Spec{{"dp"}}});
    for (int run = 0; run < 2; ++run) {
      const List y = f({of_x.shard(x, world.rank()), of_w.shard(w, world.rank())});
      const std::lock_guard lock(mutex);
      got[world.rank()] = y[0].to_doubles();
    }
  });
  for (int rank = 0; rank < 4; ++rank) {
    for (size_t i = 0; i < 4; ++i)
      EXPECT_NEAR(got[rank][i], expected[static_cast<size_t>(rank / 2) * 4 + i], 1e-12) << rank << " " << i;
  }
  World alone;
  const auto f = shard_map([](const List& in) { return List{psum(in[0], "dp")}; }, alone, Mesh({{"dp", 1}}, 1),
                           {Spec{}}, {Spec{}});
  EXPECT_EQ(f({x})[0].to_doubles(), x.to_doubles());
  expect_error<ValueError>([&] { shard_map([](const List& in) { return in; }, alone, mesh, {}, {})({}); },
                           {"needs 4 ranks; the world has 1"});
}

}  // namespace
}  // namespace heddle::distributed
