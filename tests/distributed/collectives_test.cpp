// Every collective against its definition on the host, for worlds of several sizes, dtypes, odd and empty values, in
// one piece and in many, with messages that end in any order.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <limits>
#include <numeric>
#include <tuple>
#include <vector>

#include "heddle/core/base/dtype.h"
#include "tests/distributed/rank_threads.h"

namespace heddle::distributed {
namespace {

using test::all_ranks;
using test::RankOptions;

// Values as a dtype stores them.
struct Array {
  Array(DType t, size_t n) : dtype(t), count(n), storage(n * size_of(t) / 8 + 1) {}
  double at(size_t i) const { return load_element(storage.data(), dtype, i); }
  void set(size_t i, double value) { store_element(storage.data(), dtype, i, value); }
  void* data() { return storage.data(); }
  DType dtype;
  size_t count;
  std::vector<uint64_t> storage;  // aligned for every type
};

// A small whole number that tells rank and place apart; sums of several are exact in every type.
double value(int rank, size_t i) { return static_cast<double>((rank * 7 + static_cast<int>(i % 11) * 3) % 16); }

Array filled(DType t, size_t n, int rank) {
  Array array(t, n);
  for (size_t i = 0; i < n; ++i) array.set(i, value(rank, i));
  return array;
}

// (ranks, dtype, elements, bytes of a piece)
using Case = std::tuple<int, DType, int64_t, size_t>;
class Collectives : public testing::TestWithParam<Case> {
 protected:
  int ranks = std::get<0>(GetParam());
  DType dtype = std::get<1>(GetParam());
  int64_t n = std::get<2>(GetParam());
  RankOptions options{.world = {.limit_seconds = 60, .piece_bytes = std::get<3>(GetParam())}, .hesitant = 5};
  size_t count() const { return static_cast<size_t>(n); }
};

TEST_P(Collectives, AllReduce) {
  for (const Reduction reduction : {Reduction::sum, Reduction::max, Reduction::min}) {
    all_ranks(
        ranks,
        [&](World& world) {
          Array mine = filled(dtype, count(), world.rank());
          world.all().all_reduce(mine.data(), dtype, {n}, reduction).wait();
          for (size_t i = 0; i < count(); ++i) {
            double expected = value(0, i);
            for (int rank = 1; rank < ranks; ++rank) {
              const double other = value(rank, i);
              if (reduction == Reduction::sum) expected += other;
              if (reduction == Reduction::max) expected = std::max(expected, other);
              if (reduction == Reduction::min) expected = std::min(expected, other);
            }
            ASSERT_EQ(mine.at(i), expected) << name_of(reduction) << " at " << i << " of rank " << world.rank();
          }
        },
        options);
  }
}

TEST_P(Collectives, AllGather) {
  all_ranks(
      ranks,
      [&](World& world) {
        Array mine = filled(dtype, count(), world.rank()), all(dtype, count() * static_cast<size_t>(ranks));
        world.all().all_gather(mine.data(), all.data(), dtype, {n}).wait();
        for (int rank = 0; rank < ranks; ++rank) {
          for (size_t i = 0; i < count(); ++i)
            ASSERT_EQ(all.at(static_cast<size_t>(rank) * count() + i), value(rank, i)) << rank << " " << i;
        }
      },
      options);
}

TEST_P(Collectives, ReduceScatter) {
  all_ranks(
      ranks,
      [&](World& world) {
        Array all = filled(dtype, count() * static_cast<size_t>(ranks), world.rank()), mine(dtype, count());
        world.all().reduce_scatter(all.data(), mine.data(), dtype, {n}).wait();
        for (size_t i = 0; i < count(); ++i) {
          const size_t place = static_cast<size_t>(world.rank()) * count() + i;
          double sum = 0;
          for (int rank = 0; rank < ranks; ++rank) sum += value(rank, place);
          ASSERT_EQ(mine.at(i), sum) << i;
          ASSERT_EQ(all.at(place), value(world.rank(), place)) << "what is read stays";
        }
      },
      options);
}

// Each rank's part has a size of its own, one has nothing.
std::vector<int64_t> sizes_of_parts(int ranks, int64_t n) {
  std::vector<int64_t> sizes;
  for (int rank = 0; rank < ranks; ++rank) sizes.push_back(rank == 1 ? 0 : n + 2 * rank);
  return sizes;
}

TEST_P(Collectives, PartsOfAnySizeAreReducedInPlace) {
  const std::vector<int64_t> sizes = sizes_of_parts(ranks, n);
  all_ranks(
      ranks,
      [&](World& world) {
        const auto whole = static_cast<size_t>(std::accumulate(sizes.begin(), sizes.end(), int64_t{0}));
        const auto first =
            static_cast<size_t>(std::accumulate(sizes.begin(), sizes.begin() + world.rank(), int64_t{0}));
        const size_t end = first + static_cast<size_t>(sizes[static_cast<size_t>(world.rank())]);
        Array all = filled(dtype, whole, world.rank());
        world.all().reduce_scatter(all.data(), dtype, sizes).wait();
        for (size_t i = 0; i < whole; ++i) {
          double expected = 0;
          for (int rank = 0; rank < ranks; ++rank) expected += value(rank, i);
          ASSERT_EQ(all.at(i), i >= first && i < end ? expected : value(world.rank(), i)) << i;
        }
      },
      options);
}

TEST_P(Collectives, PartsOfAnySizeAreGatheredInPlace) {
  const std::vector<int64_t> sizes = sizes_of_parts(ranks, n);
  all_ranks(
      ranks,
      [&](World& world) {
        const auto whole = static_cast<size_t>(std::accumulate(sizes.begin(), sizes.end(), int64_t{0}));
        Array all = filled(dtype, whole, world.rank());
        world.all().all_gather(all.data(), dtype, sizes).wait();
        size_t i = 0;
        for (int rank = 0; rank < ranks; ++rank) {
          for (int64_t k = 0; k < sizes[static_cast<size_t>(rank)]; ++k, ++i) ASSERT_EQ(all.at(i), value(rank, i)) << i;
        }
      },
      options);
}

TEST_P(Collectives, AllToAll) {
  all_ranks(
      ranks,
      [&](World& world) {
        const size_t whole = count() * static_cast<size_t>(ranks);
        Array to = filled(dtype, whole, world.rank()), from(dtype, whole);
        world.all().all_to_all(to.data(), from.data(), dtype, {n}).wait();
        for (int rank = 0; rank < ranks; ++rank) {
          for (size_t i = 0; i < count(); ++i)
            ASSERT_EQ(from.at(static_cast<size_t>(rank) * count() + i),
                      value(rank, static_cast<size_t>(world.rank()) * count() + i));
        }
      },
      options);
}

TEST_P(Collectives, Broadcast) {
  for (int root = 0; root < ranks; ++root) {
    all_ranks(
        ranks,
        [&](World& world) {
          Array mine = filled(dtype, count(), world.rank());
          world.all().broadcast(mine.data(), dtype, {n}, root).wait();
          for (size_t i = 0; i < count(); ++i) ASSERT_EQ(mine.at(i), value(root, i)) << i;
        },
        options);
  }
}

// Around a ring, each rank sending and receiving at once.
TEST_P(Collectives, SendAndReceive) {
  if (ranks == 1) return;
  all_ranks(
      ranks,
      [&](World& world) {
        Group all = world.all();
        const int next = (world.rank() + 1) % ranks, before = (world.rank() + ranks - 1) % ranks;
        for (int turn = 0; turn < 3; ++turn) {
          Array mine = filled(dtype, count(), world.rank() + turn), other(dtype, count());
          const Ticket received = all.receive(other.data(), dtype, {n}, before);
          all.send(mine.data(), dtype, {n}, next).wait();
          received.wait();
          for (size_t i = 0; i < count(); ++i) ASSERT_EQ(other.at(i), value(before + turn, i)) << i;
        }
      },
      options);
}

std::string name_of_case(const testing::TestParamInfo<Case>& info) {
  const auto& [ranks, dtype, n, piece] = info.param;
  return fmt::format("{}_ranks_{}_{}_elements_{}_bytes", ranks, heddle::name_of(dtype), n, piece);
}

INSTANTIATE_TEST_SUITE_P(Sizes, Collectives,
                         testing::Combine(testing::Values(1, 2, 3, 5), testing::Values(DType::f32),
                                          testing::Values<int64_t>(0, 1, 2, 37), testing::Values<size_t>(12, 1 << 18)),
                         name_of_case);
INSTANTIATE_TEST_SUITE_P(Types, Collectives,
                         testing::Combine(testing::Values(4),
                                          testing::Values(DType::f16, DType::bf16, DType::f64, DType::i32, DType::i64),
                                          testing::Values<int64_t>(101), testing::Values<size_t>(16)),
                         name_of_case);

// What is only moved has any type.
TEST(Collective, BytesAreMoved) {
  all_ranks(3, [](World& world) {
    const auto mine = static_cast<uint8_t>(200 + world.rank());
    uint8_t all[3] = {};
    world.all().all_gather(&mine, all, DType::u8, {}).wait();
    for (int i = 0; i < 3; ++i) EXPECT_EQ(all[i], 200 + i);
  });
}

// 256 + 1 is 256 in bf16: added one after the other in bf16 the sum would stay 256.
TEST(Collective, HalvesAreAddedInF32) {
  all_ranks(3, [](World& world) {
    uint16_t mine = f32_to_bf16(world.rank() == 0 ? 256.0f : 1.0f);
    world.all().all_reduce(&mine, DType::bf16, {}).wait();
    EXPECT_EQ(bf16_to_f32(mine), 258.0f);
    uint16_t half = f32_to_f16(world.rank() == 0 ? 2048.0f : 1.0f);
    world.all().all_reduce(&half, DType::f16, {}).wait();
    EXPECT_EQ(f16_to_f32(half), 2050.0f);
  });
}

TEST(Collective, NotANumberIsKept) {
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  for (int where = 0; where < 3; ++where) {
    for (const Reduction reduction : {Reduction::sum, Reduction::max, Reduction::min}) {
      all_ranks(3, [&](World& world) {
        float mine[2] = {world.rank() == where ? nan : 1.0f, 2.0f};
        world.all().all_reduce(mine, DType::f32, {2}, reduction).wait();
        EXPECT_TRUE(std::isnan(mine[0])) << where << name_of(reduction);
        EXPECT_FALSE(std::isnan(mine[1]));
      });
    }
  }
}

TEST(Collective, WholeNumbersWrap) {
  all_ranks(2, [](World& world) {
    int32_t mine = std::numeric_limits<int32_t>::max();
    world.all().all_reduce(&mine, DType::i32, {}).wait();
    EXPECT_EQ(mine, -2);
  });
}

// The order of additions is ((0+1)+(2+3))+4, wherever an element lies and whenever messages come.
TEST(Collective, SumsAreTheSameBits) {
  constexpr size_t n = 3001;
  const auto number = [](int rank, size_t i) {
    return static_cast<float>(std::sin(static_cast<double>(i) + 0.1 * rank) * std::pow(10.0, rank));
  };
  std::vector<float> expected(n);
  for (size_t i = 0; i < n; ++i)
    expected[i] = ((number(0, i) + number(1, i)) + (number(2, i) + number(3, i))) + number(4, i);
  for (uint64_t seed : {0, 1, 2}) {
    for (const size_t piece : {64, 1 << 18}) {
      all_ranks(5,
                [&](World& world) {
                  std::vector<float> mine(n);
                  for (size_t i = 0; i < n; ++i) mine[i] = number(world.rank(), i);
                  world.all().all_reduce(mine.data(), DType::f32, {n}).wait();
                  EXPECT_EQ(mine, expected) << seed << " " << piece;
                },
                {.world = {.limit_seconds = 60, .piece_bytes = piece}, .hesitant = seed});
    }
  }
}

// Many calls of several groups at once, waited for in another order; more than run side by side.
TEST(Collective, ManyAtOnce) {
  constexpr int calls = 600;
  all_ranks(4, [](World& world) {
    const Mesh mesh({{"dp", 2}, {"tp", 2}}, world.size());
    Group groups[] = {world.all(), world.group(mesh, {"dp"}), world.group(mesh, {"tp"})};
    std::vector<float> values(calls);
    std::vector<Ticket> tickets;
    for (int i = 0; i < calls; ++i) {
      values[static_cast<size_t>(i)] = static_cast<float>(world.rank() + i);
      tickets.push_back(groups[i % 3].all_reduce(&values[static_cast<size_t>(i)], DType::f32, {}));
    }
    for (size_t i = calls; i-- > 0;) tickets[i].wait();
    for (int i = 0; i < calls; ++i) {
      float sum = 0;
      for (const int rank : groups[i % 3].ranks()) sum += static_cast<float>(rank + i);
      ASSERT_EQ(values[static_cast<size_t>(i)], sum) << i;
    }
  });
}

TEST(Collective, ABarrierWaitsForAll) {
  std::atomic<int> arrived{0};
  all_ranks(4, [&](World& world) {
    for (int turn = 1; turn <= 5; ++turn) {
      ++arrived;
      world.all().barrier().wait();
      EXPECT_GE(arrived.load(), 4 * turn);
      world.all().barrier().wait();
    }
  });
}

// A ticket that is dropped still keeps the values until the call is over.
TEST(Collective, ATicketThatGoesWaits) {
  all_ranks(2, [](World& world) {
    float mine = 1;
    { const Ticket dropped = world.all().all_reduce(&mine, DType::f32, {}); }
    EXPECT_EQ(mine, 2.0f);
    Ticket moved = world.all().all_reduce(&mine, DType::f32, {});
    moved = Ticket();
    EXPECT_EQ(mine, 4.0f);
    EXPECT_TRUE(moved.done());
  });
}

TEST(Collective, AWorldOfOneNeedsNothing) {
  World world;
  EXPECT_EQ(world.rank(), 0);
  EXPECT_EQ(world.size(), 1);
  EXPECT_EQ(world.transport(), "none");
  float mine[2] = {3, 4}, all[2] = {};
  world.all().all_reduce(mine, DType::f32, {2}).wait();
  world.all().broadcast(mine, DType::f32, {2}, 0).wait();
  world.all().barrier().wait();
  world.all().all_gather(mine, all, DType::f32, {2}).wait();
  EXPECT_EQ(all[1], 4.0f);
  world.all().reduce_scatter(all, mine, DType::f32, {2}).wait();
  EXPECT_EQ(mine[0], 3.0f);
  world.all().reduce_scatter(mine, DType::f32, std::vector<int64_t>{2}).wait();
  world.all().all_gather(mine, DType::f32, std::vector<int64_t>{2}).wait();
  EXPECT_EQ(mine[0], 3.0f);
}

// A send has begun, and can be waited for so far, before anybody asks for what it sends.
TEST(Tickets, WaitForStart) {
  Ticket().wait_for_start();
  std::atomic<bool> begun = false;
  all_ranks(2, [&](World& world) {
    float value = world.rank() == 0 ? 7.0f : 0.0f;
    if (world.rank() == 0) {
      const Ticket ticket = world.all().send(&value, DType::f32, {1}, 1);
      ticket.wait_for_start();
      begun = true;
      begun.notify_all();
      ticket.wait();
      ticket.wait_for_start();
    } else {
      begun.wait(false);
      world.all().receive(&value, DType::f32, {1}, 0).wait();
    }
    EXPECT_EQ(value, 7.0f);
  });
}

}  // namespace
}  // namespace heddle::distributed
