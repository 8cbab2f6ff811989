// Shares of the batch that follow the ranks' speeds (train/balance.h), as threads of one process that sleep.
#include "heddle/train/balance.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "heddle/core/base/error.h"
#include "heddle/core/ir/dynamic_shapes.h"
#include "tests/distributed/train_ranks.h"
#include "tests/support/device_test.h"
#include "tests/support/devices.h"
#include "tests/support/expect_error.h"

namespace heddle::train {
namespace {

using Shares = std::vector<int64_t>;

TEST(BalancedShares, AreInProportionToSpeed) {
  EXPECT_EQ(balanced_shares({16, 16}, {1, 2}), (Shares{22, 10}));  // or 21, 11: as long
  EXPECT_EQ(balanced_shares({22, 10}, {1, 1}), (Shares{22, 10}));
  EXPECT_EQ(balanced_shares({8, 8, 8}, {1, 1, 1}), (Shares{8, 8, 8}));
  EXPECT_EQ(balanced_shares({1, 1, 1, 1}, {1, 9, 1, 1}), (Shares{1, 1, 1, 1}));
  EXPECT_EQ(balanced_shares({4, 4}, {1, 1000}), (Shares{7, 1}));
}

// Those that take the shortest time of all, as trying them says.
TEST(BalancedShares, AreTheBestOnes) {
  const std::vector<double> seconds{0.3, 1.1, 0.45};
  const Shares now{5, 7, 9};
  const auto longest = [&](const Shares& shares) {
    double most = 0;
    for (size_t r = 0; r < 3; ++r)
      most = std::max(most, static_cast<double>(shares[r]) * seconds[r] / static_cast<double>(now[r]));
    return most;
  };
  double best = std::numeric_limits<double>::infinity();
  for (int64_t a = 1; a < 20; ++a) {
    for (int64_t b = 1; a + b < 21; ++b) best = std::min(best, longest({a, b, 21 - a - b}));
  }
  EXPECT_EQ(longest(balanced_shares(now, seconds)), best);
}

TEST(BalancedShares, StayWithoutTimes) {
  for (const double none : {0.0, -1.0, std::nan("")}) EXPECT_EQ(balanced_shares({3, 3}, {1, none}), (Shares{3, 3}));
}

TEST(Balance, ChangesAfterTwoWindows) {
  distributed::test::all_ranks(2, [](distributed::World& world) {
    Replicas replicas(world);
    Config c;
    c.training.batch = 12;
    c.training.balance = true;
    Balance balance(replicas, c);
    EXPECT_EQ(dynamic_shapes(), DynamicShapes::never);
    EXPECT_FALSE(balance.follow({1, 2}));
    EXPECT_FALSE(balance.follow({}));  // does not count, nor does the one before
    EXPECT_FALSE(balance.follow({1, 2}));
    EXPECT_TRUE(balance.follow({1, 2}));
    EXPECT_EQ(replicas.shares_of(12), (Shares{8, 4}));
    EXPECT_EQ(replicas.part_of(12).first, world.rank() == 0 ? 0 : 8);
    EXPECT_EQ(replicas.shares_of(14), (Shares{7, 7}));
    EXPECT_FALSE(balance.follow({1, 1}));
    EXPECT_FALSE(balance.follow({1, 1.05}));  // not worth it
    for (int window = 0; window < 3; ++window) EXPECT_FALSE(balance.follow({2, 1}));
    EXPECT_TRUE(balance.follow({2, 1}));  // later changes need more windows
    EXPECT_EQ(replicas.shares_of(12), (Shares{6, 6}));
    c.training.balance = false;
    Balance idle(replicas, c);
    for (int window = 0; window < 3; ++window) EXPECT_FALSE(idle.follow({1, 2}));
  });
}

TEST(Balance, IsRefusedWithEqualShares) {
  distributed::World world;
  Replicas replicas(world);
  const auto refused = [&](const char* message, const std::function<void(Config&)>& change) {
    Config c;
    c.training.balance = true;
    change(c);
    tests::expect_error<ValueError>([&] { Balance balance(replicas, c); }, {message});
  };
  refused("[train] --balance with --parts", [](Config& c) { c.training.parts = 4; });
  refused("[train] --balance with --sharding", [](Config& c) { c.training.sharding = "zero1"; });
  refused("[train] --balance with --compress", [](Config& c) { c.training.compress = "bf16"; });
}

struct SharesAndLosses final : Callback {
  void on_shares(Trainer&, const Shares& examples) override { shares.push_back(examples); }
  void on_steps(Trainer&, std::span<const StepRecord> records) override {
    for (const StepRecord& record : records) losses.push_back(record.loss);
  }
  std::vector<Shares> shares;
  std::vector<double> losses;
};

class BalanceOnDevices : public TrainsOnRanks {};

// Losses are those of equal shares, over the ends of epochs as well; a rank that needs three times as long for an
// example gets less of them.
TEST_P(BalanceOnDevices, TrainingsKeepTheirLosses) {
  Config c = small_config();
  c.training.batch = 16;
  c.training.steps = 18;
  c.log.eval_every = 3;  // windows end there
  const std::vector<double> equal = train_ranks(c, on(2)).front().losses;
  c.training.balance = true;
  std::shared_ptr<SharesAndLosses> told;
  const RunsOfRanks how{.before = [&](Trainer& trainer, int rank) {
    if (rank == 0 && !told) trainer.add(told = std::make_shared<SharesAndLosses>());
    const int64_t examples = trainer.replicas()->part_of(16).size;
    std::this_thread::sleep_for(std::chrono::milliseconds((rank == 1 ? 6 : 2) * examples));
  }};
  const std::vector<double> losses = train_ranks(c, on(2), how).front().losses;
  ASSERT_TRUE(told);
  ASSERT_FALSE(told->shares.empty());
  for (const Shares& shares : told->shares) EXPECT_EQ(shares[0] + shares[1], 16);
  EXPECT_GE(told->shares.back()[0], 10);
  expect_near(losses, equal, 1e-4);
}

INSTANTIATE_TEST_SUITE_P(Devices, BalanceOnDevices, testing::ValuesIn(heddle::test::value_devices()),
                         tests::backend_test_name);

}  // namespace
}  // namespace heddle::train
