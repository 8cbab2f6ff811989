// Gradients that travel compressed (train/compression/): what two ranks take for their sum beside the sum in double
// precision, and trainings of ranks that are threads of one process.
#include "heddle/train/compression/compression.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "heddle/autograd/autograd.h"
#include "heddle/core/functions/functions.h"
#include "heddle/train/replicas.h"
#include "tests/distributed/layers_task.h"
#include "tests/distributed/train_ranks.h"
#include "tests/support/device_test.h"
#include "tests/support/devices.h"
#include "tests/support/expect_error.h"

namespace heddle::train {
namespace {

using tests::expect_error;
using Kinds = std::vector<std::unique_ptr<Compression>>;
using Gradients = std::vector<Tensor>;

// What the ranks' lists become, by the route, on the host.
std::vector<Gradients> routed(Route route, const std::vector<Gradients>& lists) {
  std::vector<Gradients> brought(lists.size());
  for (size_t l = 0; l < lists.front().size(); ++l) {
    for (size_t me = 0; me < lists.size(); ++me) {
      Gradients parts;
      for (const Gradients& of : lists) {
        const auto at = static_cast<int64_t>(me);
        parts.push_back(route == Route::swap ? slice(of[l], 0, {.start = at, .stop = at + 1})
                                             : reshape(of[l], Shape{1, of[l].numel()}));
      }
      const Tensor all = concat(parts, 0);
      brought[me].push_back(route == Route::sum ? sum(all.to(DType::f32), {0}).to(all.dtype()) : all);
    }
  }
  return brought;
}

// The sums that each rank takes.
std::vector<Gradients> sums_of(const Kinds& ranks, const std::vector<Gradients>& gradients) {
  const NoGradScope no_grad;
  std::vector<Gradients> given = gradients;
  const std::vector<Route> routes = ranks.front()->routes();
  for (size_t round = 0; round < routes.size(); ++round) {
    std::vector<Gradients> lists;
    for (size_t r = 0; r < ranks.size(); ++r) lists.push_back(ranks[r]->send(round, given[r]));
    given = routed(routes[round], lists);
  }
  std::vector<Gradients> sums;
  for (size_t r = 0; r < ranks.size(); ++r) sums.push_back(ranks[r]->sums(given[r]));
  return sums;
}

class CompressionTest : public testing::TestWithParam<std::string> {
 protected:
  DeviceContext& on() const { return device(GetParam()); }
  Tensor random(const Shape& shape) {
    std::vector<float> values(static_cast<size_t>(shape.numel()));
    for (float& value : values) value = static_cast<float>(bits_()) / 1073741824.0f - 2.0f;
    return Tensor::from_vector(values, shape, &on());
  }
  Kinds ranks_of(const std::string& kind, int count = 2) const {
    Kinds ranks;
    for (int r = 0; r < count; ++r) {
      ranks.push_back(kind == "bf16"   ? make_rounded()
                      : kind == "topk" ? make_largest(0.05, on())
                      : kind == "int8" ? make_bytes(count, on())
                                       : make_low_rank({.seed = 1, .in_bytes = kind == "thin int8"}, on()));
    }
    return ranks;
  }

 private:
  std::mt19937 bits_{7};
};

std::vector<double> added(const std::vector<Gradients>& ranks, size_t i) {
  std::vector<double> total = ranks.front()[i].to_doubles();
  for (size_t r = 1; r < ranks.size(); ++r) {
    const std::vector<double> more = ranks[r][i].to_doubles();
    for (size_t e = 0; e < total.size(); ++e) total[e] += more[e];
  }
  return total;
}

double largest_error(const std::vector<double>& a, const std::vector<double>& b) {
  double most = 0;
  for (size_t e = 0; e < a.size(); ++e) most = std::max(most, std::abs(a[e] - b[e]));
  return most;
}

TEST_P(CompressionTest, RoundingsAndBytesAreNearTheSum) {
  const std::vector<Gradients> gradients{
      {random({7, 33}), random({901})}, {random({7, 33}), random({901})}, {random({7, 33}), random({901})}};
  // Of magnitudes up to 6: half a unit of 8 bits' last place, twice; two of bf16's.
  for (const auto& [kind, most] : {std::pair("bf16", 0.05), {"int8", 3 * 2.0 / 254 + 6.0 / 254 + 1e-5}}) {
    const std::vector<Gradients> sums = sums_of(ranks_of(kind, 3), gradients);
    for (size_t i = 0; i < 2; ++i) {
      EXPECT_EQ(sums[0][i].shape(), gradients[0][i].shape());
      EXPECT_EQ(sums[0][i].to_doubles(), sums[2][i].to_doubles()) << kind;
      const double error = largest_error(sums[0][i].to_doubles(), added(gradients, i));
      EXPECT_LE(error, most) << kind;
      EXPECT_GT(error, 0) << kind;  // something was rounded
    }
  }
}

TEST_P(CompressionTest, ThinFactorsOfThinMatricesAreExact) {
  const Tensor left = random({40, 2}), right = random({2, 48});
  const std::vector<Gradients> gradients{{reshape(matmul(left, right), Shape{40, 6, 8}), random({32, 64})},
                                         {reshape(matmul(left * 0.5, right), Shape{40, 6, 8}), random({32, 64})}};
  // Of magnitudes up to 12, the right factor of both ranks rounded to 8 bits; by a column's largest magnitude twice as
  // much.
  for (const auto& [kind, most] : {std::pair("powersgd", 12 * 0x1p-7), {"thin int8", 12 * 0x1p-6}}) {
    const std::vector<Gradients> sums = sums_of(ranks_of(kind), gradients);
    EXPECT_LE(largest_error(sums[0][0].to_doubles(), added(gradients, 0)), most) << kind;
    EXPECT_GT(largest_error(sums[0][1].to_doubles(), added(gradients, 1)), 0.1) << kind;  // of full rank: not at once
    EXPECT_EQ(sums[0][1].to_doubles(), sums[1][1].to_doubles()) << kind;
  }
}

// Gradients that stay the same: what is left out of one update comes with a later one, so that the mean of the sums
// comes near the sum as 1 / updates.
TEST_P(CompressionTest, NothingIsLostOverUpdates) {
  const std::vector<Gradients> gradients{{random({24, 40})}, {random({24, 40})}};
  const std::vector<double> expected = added(gradients, 0);
  for (const std::string kind : {"powersgd", "thin int8", "topk", "int8"}) {
    const Kinds ranks = ranks_of(kind);
    std::vector<double> total(expected.size());
    double first = 0;
    constexpr int updates = 60;
    for (int u = 0; u < updates; ++u) {
      const std::vector<double> sum = sums_of(ranks, gradients)[0][0].to_doubles();
      if (u == 0) first = largest_error(sum, expected);
      for (size_t e = 0; e < total.size(); ++e) total[e] += sum[e] / updates;
    }
    EXPECT_LE(largest_error(total, expected), 0.35 * first) << kind;
  }
}

TEST_P(CompressionTest, LargestElementsAreSentAsTheyAre) {
  std::vector<float> one(100), two(100);
  one[3] = -5, one[50] = 2, one[70] = 1, two[3] = 1, two[99] = 7, two[0] = 0.5;
  const std::vector<Gradients> gradients{{Tensor::from_vector(one, Shape{100}, &on())},
                                         {Tensor::from_vector(two, Shape{100}, &on())}};
  Kinds ranks;
  for (int r = 0; r < 2; ++r) ranks.push_back(make_largest(0.02, on()));
  std::vector<double> sums = sums_of(ranks, gradients)[0][0].to_doubles();
  EXPECT_EQ(sums[3], -4);
  EXPECT_EQ(sums[50], 2);
  EXPECT_EQ(sums[99], 7);
  EXPECT_EQ(sums[70], 0);
  EXPECT_EQ(sums[0], 0);
  const Gradients none{zeros({100}, DType::f32, &on())};
  sums = sums_of(ranks, {none, none})[1][0].to_doubles();
  EXPECT_EQ(sums[70], 1);
  EXPECT_EQ(sums[0], 0.5);
  EXPECT_EQ(sums[3], 0);
}

TEST_P(CompressionTest, WhatIsNotFiniteIsNotHidden) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    for (const std::string kind : {"bf16", "powersgd", "thin int8", "topk", "int8"}) {
      std::vector<float> values(32 * 64, 0.25f);
      values[70] = bad;
      const std::vector<Gradients> gradients{{Tensor::from_vector(values, Shape{32, 64}, &on())}, {random({32, 64})}};
      const std::vector<double> sums = sums_of(ranks_of(kind), gradients)[1][0].to_doubles();
      EXPECT_FALSE(std::isfinite(sums[70])) << kind << " " << bad;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, CompressionTest, testing::ValuesIn(heddle::test::value_devices()),
                         tests::backend_test_name);

class CompressedTraining : public CompressionTest {};

TEST_P(CompressedTraining, LossesStayNearAndRanksAreTheSameBits) {
  Config c = small_config();
  c.training.steps = 20;
  c.training.clip_norm = 1;
  const RunsOfRanks how{.make = wide_task};
  const std::vector<std::string> devices(2, GetParam());
  const std::vector<Ran> plain = train_ranks(c, devices, how);
  std::vector<std::tuple<std::string, double, double>> kinds{{"powersgd", 0.25, 0.35}};
  if (GetParam() == "reference:0")
    kinds.insert(kinds.end(),
                 {{"bf16", 0.02, 0.53}, {"topk", 0.25, 0.2}, {"int8", 0.05, 0.3}, {"thin int8", 0.25, 0.35}});
  for (const auto& [kind, near, bytes] : kinds) {
    c.training.compress = kind == "thin int8" ? "powersgd" : kind;
    c.training.compress_factors = kind == "thin int8" ? "int8" : "bf16";
    const std::vector<Ran> ranks = train_ranks(c, devices, how), again = train_ranks(c, devices, how);
    EXPECT_EQ(ranks[0].weights, ranks[1].weights) << kind;
    EXPECT_EQ(ranks[0].losses, again[0].losses) << kind;
    EXPECT_NE(ranks[0].losses, plain[0].losses) << kind;
    EXPECT_NEAR(ranks[0].losses.back() / plain[0].losses.back(), 1, near) << kind;
    EXPECT_LE(static_cast<double>(ranks[0].bytes), bytes * static_cast<double>(plain[0].bytes)) << kind;
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, CompressedTraining, testing::ValuesIn(heddle::test::value_devices()),
                         tests::backend_test_name);

TEST(Compression, WhatDoesNotFitIsRefused) {
  Config c = small_config();
  EXPECT_FALSE(compresses(c, 2));
  c.training.compress = "powersgd";
  EXPECT_TRUE(compresses(c, 2));
  expect_error<ValueError>([&] { (void)compresses(c, 1); },
                           {"[train] --compress powersgd: one rank sends no gradients"});
  c.training.precision = "f16";
  expect_error<ValueError>([&] { (void)compresses(c, 2); },
                           {"[train] --compress powersgd with --precision f16: an overflow"});
  c.training.compress = "bf16";
  EXPECT_TRUE(compresses(c, 2));
  c.training.parts = 4;
  expect_error<ValueError>([&] { (void)compresses(c, 2); },
                           {"[train] --compress bf16 with --parts 4: what ranks leave"});
  c.training.parts = 0;
  c.training.sharding = "zero1";
  expect_error<ValueError>([&] { (void)compresses(c, 2); }, {"[train] --compress bf16 with --sharding zero1"});
}

}  // namespace
}  // namespace heddle::train
