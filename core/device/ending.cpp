#include "heddle/core/device/ending.h"

#include <atomic>
#include <chrono>
#include <thread>

#include "heddle/core/base/of_this_thread.h"
#include "heddle/core/base/system/threads.h"

namespace heddle::ending {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto longest = std::chrono::seconds(2);          // that a thread is held back
constexpr auto patience = std::chrono::milliseconds(300);  // with threads that are on their way to a device

std::atomic<bool> wanted{false}, begun{false};
std::atomic<Clock::rep> begun_at{0};
std::atomic<int> registered{0};  // threads that are alive
std::atomic<int> resting{0};
std::atomic<int> blocking{0};  // threads inside a driver without its lock
thread_local bool at_rest = false;

// Of at_end(); null: no device was opened.
using Wait = void (*)();
using Idle = void (*)(const std::function<void()>& done);
std::atomic<Wait> wait_for_devices{nullptr};
std::atomic<Idle> while_idle{nullptr};

void hold_others_back() {
  wanted = true;
  while_idle.load()([] {
    begun_at = Clock::now().time_since_epoch().count();
    begun = true;
  });
  // Until all are held back: what else they do would use objects that are destroyed next.
  for (const auto start = Clock::now(); resting < registered && Clock::now() - start < patience;)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

struct Registered {
  Registered() { ++registered; }
  ~Registered() {
    --registered;
    if (os::is_main_thread()) hold_others_back();
    if (os::is_main_thread() || os::may_wait_at_thread_end()) wait_for_devices.load()();
    if (!os::is_main_thread()) return;
    // What others blocked for has finished: they are about to come back, and then held back.
    for (const auto start = Clock::now(); blocking > 0 && Clock::now() - start < patience;)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
};

}  // namespace

void at_end(Wait wait, Idle idle) {
  while_idle = idle;
  wait_for_devices = wait;
}

void register_thread() {
  if (wait_for_devices.load() != nullptr) of_this_thread<Registered>();
}

Blocking::Blocking() { ++blocking; }
Blocking::~Blocking() { --blocking; }

void give_way() {
  if (wanted.load(std::memory_order_relaxed) && !os::is_main_thread())
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
}

bool held_back() {
  if (!begun.load(std::memory_order_acquire)) return false;
  const bool held =
      !os::is_main_thread() && Clock::now().time_since_epoch().count() - begun_at < Clock::duration(longest).count();
  if (!held && at_rest) {
    at_rest = false;
    --resting;
  }
  return held;
}

void rest() {
  if (!at_rest) {
    at_rest = true;
    ++resting;
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
}

}  // namespace heddle::ending
