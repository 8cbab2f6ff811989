// StallWatch: says so when nothing moves any more.
//
// Purpose: a driver that hangs, in its compiler or in a submission, holds the thread that called it, so another one has
// to notice. Method: one thread asks for a number again and again, which a lock of the hanging thread may hold up too;
// a second one only looks at how long ago that number last changed. Invariant: once `stalled` has been called it is
// not called again. Thread safety: made and ended by one thread; both functions are called on threads of the watch.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>

namespace heddle::train {

// How long a training run may stand still: far more than any driver compiles or computes without a word.
inline constexpr double stall_seconds = 1800;

// HEDDLE_TIMEOUT where it is set (0: never), else stall_seconds.
double stall_limit();

class StallWatch {
 public:
  // `progress` is any number that changes while work is done; `stalled` is told the limit. No threads with limit <= 0.
  StallWatch(double limit, std::function<uint64_t()> progress, std::function<void(double)> stalled);
  ~StallWatch();
  StallWatch(const StallWatch&) = delete;
  StallWatch& operator=(const StallWatch&) = delete;

 private:
  using Clock = std::chrono::steady_clock;
  void sample();
  void look();
  // False when the watch ends.
  bool pause();

  double limit_;
  std::function<uint64_t()> progress_;
  std::function<void(double)> stalled_;
  std::atomic<Clock::rep> changed_;  // when the number last changed
  std::mutex mutex_;
  std::condition_variable ending_;
  bool ends_ = false;
  std::thread sampler_, looker_;
};

}  // namespace heddle::train
