// Submissions in flight: what blocks without the lock, progress and HEDDLE_TIMEOUT, and events that go back to a pool.
#include "heddle/core/device/in_flight.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <thread>

#include "heddle/core/base/error.h"
#include "heddle/core/base/seconds_since.h"

namespace heddle {
namespace {

using Clock = std::chrono::steady_clock;

// Events are numbers; those up to `completed` are over.
struct Owner {
  struct Entry {
    uint64_t ticket = 0;
    int done = 0;
  };
  std::atomic<int> completed{0};
  std::vector<int> pool;
  KeptEvents<int> kept;

  void keep(int event) { kept.keep(event); }
  void release(int event) {
    if (kept.release(event)) pool.push_back(event);
  }
  bool finished(int event) const { return over(event); }
  bool over(int event) const noexcept { return completed >= event; }
  void block(int event) const { block_quietly(event); }
  void block_quietly(int event) const noexcept {
    while (!over(event)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  void let_go(Entry& entry) { release(entry.done); }
  [[noreturn]] void give_up(double) { throw DeviceTimeout("given up"); }
};

class InFlight : public testing::Test {
 protected:
  void begin(const char* limit) {
    setenv("HEDDLE_TIMEOUT", limit, 1);
    list = std::make_unique<InFlightList<Owner, Owner::Entry>>(owner);
    unsetenv("HEDDLE_TIMEOUT");
    for (int event = 1; event <= 3; ++event) tickets.push_back(list->add({0, event}));
  }
  // Finishes one event after the other, each after so long.
  std::thread finish(int milliseconds) {
    return std::thread([this, milliseconds] {
      for (int event = 1; event <= 3; ++event) {
        std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
        owner.completed = event;
      }
    });
  }

  Owner owner;
  std::unique_ptr<InFlightList<Owner, Owner::Entry>> list;
  std::vector<Ticket> tickets;
};

TEST_F(InFlight, AWaiterBlocksUntilItsOwn) {
  begin("");
  const auto waiter = list->waiter(tickets[1], "test");
  std::thread finishing = finish(5);
  waiter->block();
  EXPECT_GE(owner.completed, 2);
  EXPECT_NO_THROW(list->wait(tickets[1], nullptr, "test"));
  finishing.join();
  EXPECT_EQ(list->waiter(tickets[1], "test"), nullptr);
  EXPECT_THROW(list->waiter(Ticket{9}, "test"), DeviceError);
}

TEST_F(InFlight, WhateverFinishesIsProgress) {
  begin("1");
  const auto waiter = list->waiter(tickets[2], "test");
  std::thread finishing = finish(400);
  waiter->block();
  EXPECT_EQ(owner.completed, 3);
  EXPECT_NO_THROW(list->wait(tickets[2], nullptr, "test"));
  finishing.join();
}

TEST_F(InFlight, WithoutProgressTheDeviceIsGivenUpAtOnce) {
  begin("0.5");
  const auto waiter = list->waiter(tickets[2], "test");
  waiter->block();
  const Clock::time_point back = Clock::now();
  EXPECT_THROW(list->wait(tickets[2], nullptr, "test"), DeviceTimeout);
  EXPECT_LT(seconds_since(back), 0.4);
}

TEST_F(InFlight, AnEventThatSomebodyWaitsForIsNotUsedAgain) {
  begin("");
  auto first = list->waiter(tickets[0], "test"), second = list->waiter(tickets[0], "test");
  owner.completed = 3;
  list->wait(tickets[2], nullptr, "test");
  EXPECT_EQ(owner.pool, (std::vector<int>{2, 3}));
  first.reset();
  EXPECT_EQ(owner.pool, (std::vector<int>{2, 3}));
  second->block();
  second.reset();
  EXPECT_EQ(owner.pool, (std::vector<int>{2, 3, 1}));
}

}  // namespace
}  // namespace heddle
