// Values travel in smaller pieces where ranks of a call are on several hosts, and in whole ones within each host.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <mutex>
#include <numeric>
#include <thread>
#include <utility>
#include <vector>

#include "heddle/core/base/dtype.h"
#include "tests/distributed/rank_threads.h"

namespace heddle::distributed {
namespace {

constexpr size_t near_bytes = 512, far_bytes = 256;  // of a piece; calls are compared by 192

// The largest message that was sent since the last look.
class Largest {
 public:
  void see(size_t bytes) {
    const std::lock_guard lock(mutex_);
    most_ = std::max(most_, bytes);
  }
  size_t take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(most_, 0);
  }

 private:
  std::mutex mutex_;
  size_t most_ = 0;
};

// Ranks of several hosts, by rank.
class Hosts final : public Transport {
 public:
  Hosts(std::unique_ptr<Transport> inner, std::vector<int> hosts, Largest& largest)
      : inner_(std::move(inner)), hosts_(std::move(hosts)), largest_(largest) {}
  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  std::string name() const override { return "hosts"; }
  bool same_host(int other) const override {
    return hosts_[static_cast<size_t>(other)] == hosts_[static_cast<size_t>(rank())];
  }
  Message send(int to, int tag, std::span<const std::byte> bytes) override {
    largest_.see(bytes.size());
    return inner_->send(to, tag, bytes);
  }
  Message receive(int from, int tag, std::span<std::byte> bytes) override { return inner_->receive(from, tag, bytes); }
  bool finished(Message message) override { return inner_->finished(message); }
  void push() override { inner_->push(); }
  void give_up() noexcept override { inner_->give_up(); }

 private:
  std::unique_ptr<Transport> inner_;
  std::vector<int> hosts_;
  Largest& largest_;
};

// What ranks on these hosts do, together.
void on_hosts(const std::vector<int>& hosts, const std::function<void(World&)>& f, Largest& largest) {
  const auto ranks = static_cast<int>(hosts.size());
  const LocalWorld local(ranks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      World world([&] { return std::make_unique<Hosts>(local.transport(rank), hosts, largest); },
                  {.limit_seconds = 60, .piece_bytes = near_bytes, .far_piece_bytes = far_bytes});
      f(world);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// Sums over a group, and the largest message of it.
size_t largest_of_sums(const std::vector<int>& hosts, const std::function<Group(World&)>& group_of) {
  constexpr size_t elements = 1001;
  Largest largest;
  on_hosts(
      hosts,
      [&](World& world) {
        Group group = group_of(world);
        std::vector<float> values(elements);
        std::iota(values.begin(), values.end(), static_cast<float>(world.rank()));
        group.all_reduce(values.data(), DType::f32, {elements}).wait();
        float ranks = 0;
        for (const int rank : group.ranks()) ranks += static_cast<float>(rank);
        for (size_t i = 0; i < elements; ++i)
          ASSERT_EQ(values[i], ranks + static_cast<float>(i) * static_cast<float>(group.size())) << i;
      },
      largest);
  return largest.take();
}

Group all(World& world) { return world.all(); }
Group pairs(World& world) { return world.group("pairs", {{0, 1}, {2, 3}}); }

TEST(FarPieces, AreThoseOfCallsBetweenHosts) {
  EXPECT_EQ(largest_of_sums({0, 0, 0, 0}, all), near_bytes);
  EXPECT_EQ(largest_of_sums({0, 0, 1, 1}, all), far_bytes);
  EXPECT_EQ(largest_of_sums({0, 0, 0, 1}, all), far_bytes);
  EXPECT_EQ(largest_of_sums({0, 0, 1, 1}, pairs), near_bytes);
  EXPECT_EQ(largest_of_sums({0, 1, 0, 1}, pairs), far_bytes);
}

// Of a message the two ranks alone count.
TEST(FarPieces, MessagesGoByTheirOwnTwoRanks) {
  for (const int to : {1, 2}) {
    Largest largest;
    on_hosts(
        {0, 0, 1},
        [&](World& world) {
          std::vector<float> values(999, static_cast<float>(world.rank() + 1));
          if (world.rank() == 0) world.all().send(values.data(), DType::f32, {999}, to).wait();
          if (world.rank() == to) {
            world.all().receive(values.data(), DType::f32, {999}, 0).wait();
            EXPECT_EQ(values, std::vector<float>(999, 1.0f));
          }
        },
        largest);
    EXPECT_EQ(largest.take(), to == 1 ? near_bytes : far_bytes);
  }
}

}  // namespace
}  // namespace heddle::distributed
