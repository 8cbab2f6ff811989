// Lists of two ranks in memory that both see: as threads of one process. As processes: train_test.cpp.
#include "heddle/train/neighbour_lists.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "heddle/core/base/system/machine.h"
#include "heddle/core/base/system/shared_memory.h"
#include "heddle/core/compile/compile.h"
#include "heddle/core/device/adopted.h"
#include "heddle/core/device/context.h"
#include "heddle/core/functions/functions.h"
#include "heddle/nn/norm.h"
#include "tests/distributed/layers_task.h"
#include "tests/distributed/train_ranks.h"
#include "tests/support/device_test.h"

namespace heddle::train {
namespace {

using distributed::World;
using distributed::test::all_ranks;
using distributed::test::run_ranks;

constexpr const char* variable = "HEDDLE_SHARED_LISTS";

// Set while no rank runs.
class WithMessages {
 public:
  WithMessages() : before_(os::variable(variable)) { os::set_variable(variable, "0"); }
  ~WithMessages() { os::set_variable(variable, before_); }
  WithMessages(const WithMessages&) = delete;
  WithMessages& operator=(const WithMessages&) = delete;

 private:
  std::optional<std::string> before_;
};

TEST(SharedMemory, IsSeenByWhoOpensItByItsName) {
  constexpr uint64_t bytes = 12'345;
  os::SharedMemory made = os::SharedMemory::make(bytes);
  if (made.first() == nullptr) GTEST_SKIP() << "this system has none of that kind";
  EXPECT_EQ(made.first()[bytes - 1], std::byte{0});
  const os::SharedMemory opened = os::SharedMemory::open(made.name(), bytes);
  ASSERT_NE(opened.first(), nullptr);
  EXPECT_NE(opened.first(), made.first());
  made.first()[bytes - 1] = std::byte{7};
  EXPECT_EQ(opened.first()[bytes - 1], std::byte{7});
  EXPECT_EQ(os::SharedMemory::open(made.name(), bytes + 1).first(), nullptr);
  const std::string name = made.name();
  made = os::SharedMemory();
  EXPECT_EQ(opened.first()[bytes - 1], std::byte{7});
  EXPECT_EQ(os::SharedMemory::open(name, bytes).first(), nullptr);
  EXPECT_EQ(os::SharedMemory::open("/nowhere", bytes).first(), nullptr);
}

class Neighbours : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (!has_host_memory(device(GetParam()))) GTEST_SKIP() << "its memory is its own";
  }
};

float number_of(int rank, int round, int64_t place) {
  return static_cast<float>(rank * 1000 + round * 10) + static_cast<float>(place % 7) / 8;
}

// A compiled function writes, another one adds, for more rounds than there are lots.
TEST_P(Neighbours, EachReadsWhatTheOtherWrote) {
  for (const int64_t size : {1, 1023, 70'001}) {
    all_ranks(2, [&](World& world) {
      DeviceContext& where = device(GetParam());
      Replicas replicas(world);
      const std::unique_ptr<NeighbourLists> lists = NeighbourLists::open(replicas, where, size);
      ASSERT_NE(lists, nullptr);
      const auto write =
          compile([&](const Tensor& values, size_t lot) { lists->list(lot, replicas.rank()).assign(values * 2); });
      const auto add = compile([&](size_t lot) { return lists->list(lot, 0) + lists->list(lot, 1); });
      for (int round = 0; round < 7; ++round) {
        std::vector<float> mine, expected;
        for (int64_t i = 0; i < size; ++i) {
          mine.push_back(number_of(replicas.rank(), round, i));
          expected.push_back(2 * number_of(0, round, i) + 2 * number_of(1, round, i));
        }
        const size_t lot = static_cast<size_t>(round) % NeighbourLists::lots;
        write(Tensor::from_vector(mine, {size}, &where), lot);
        where.event().wait();
        lists->meet(lot);
        EXPECT_EQ(lists->values(lot, 1 - replicas.rank()).back(), 2 * number_of(1 - replicas.rank(), round, size - 1));
        EXPECT_EQ(add(lot).to_vector<float>(), expected) << size << " in round " << round;
      }
      EXPECT_EQ(replicas.bytes_sent() - world.bytes_sent(), static_cast<uint64_t>(7 * size) * sizeof(float));
    });
  }
}

TEST_P(Neighbours, ARankThatDoesNotComeIsNamed) {
  const std::vector<std::string> errors = run_ranks(2,
                                                    [&](World& world) {
                                                      Replicas replicas(world);
                                                      const std::unique_ptr<NeighbourLists> lists =
                                                          NeighbourLists::open(replicas, device(GetParam()), 5);
                                                      ASSERT_NE(lists, nullptr);
                                                      if (replicas.leads()) lists->meet(0);
                                                    },
                                                    {.world = {.limit_seconds = 0.2}});
  EXPECT_EQ(errors[0],
            "[all_reduce] rank 0 waited 0.2 s for all_reduce sum f32 (5) in shared memory: rank 1 has not come to the "
            "exchange 1");
  EXPECT_EQ(errors[1], "");
}

TEST_P(Neighbours, WhereOneCannotNobodyDoes) {
  const auto opens = [&](int ranks, int64_t size) {
    bool any = false;
    all_ranks(ranks, [&](World& world) {
      Replicas replicas(world);
      const bool opened = NeighbourLists::open(replicas, device(GetParam()), size) != nullptr;
      if (replicas.leads()) any = opened;
      EXPECT_EQ(replicas.any(opened), opened);
    });
    return any;
  };
  EXPECT_TRUE(opens(2, 5));
  EXPECT_FALSE(opens(1, 5));
  EXPECT_FALSE(opens(3, 5));
  EXPECT_FALSE(opens(2, NeighbourLists::most_bytes / 4 + 1));
  const WithMessages off;
  EXPECT_FALSE(opens(2, 5));
}

class TwoLists final : public NetworkTask {
 public:
  explicit TwoLists(DeviceContext& d)
      : NetworkTask(d, [&](nn::Sequential& model) {
          model.append(nn::Linear(5, 300, {.device = d}));
          model.append(nn::BatchNorm(300, {.device = d}));
          model.append(nn::Tanh());
          model.append(nn::Linear(300, 500, {.device = d}));
          model.append(nn::Linear(500, 3, {.device = d}));
        }) {}
};

// Two lists of messages, running averages of batch norms, limits of the norm, averages, accumulation; a batch that
// does not divide.
TEST_P(Neighbours, TrainingHasTheBitsOfMessages) {
  const auto make = [](DeviceContext& d) { return std::make_unique<TwoLists>(d); };
  Config c = small_config();
  c.training.batch = 9;
  const std::vector<std::string> two(2, GetParam());
  const std::vector<Ran> shared = train_ranks(c, two, {.make = make});
  const WithMessages off;
  const std::vector<Ran> sent = train_ranks(c, two, {.make = make});
  ASSERT_EQ(shared.front().losses.size(), 12u);
  for (size_t rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(shared[rank].losses, sent[rank].losses);
    EXPECT_EQ(shared[rank].weights, sent[rank].weights);
  }
  EXPECT_EQ(shared[0].weights, shared[1].weights);
}

HEDDLE_DEVICE_TESTS(Neighbours);

}  // namespace
}  // namespace heddle::train
