#include "heddle/train/stall_watch.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "heddle/core/contract/slices.h"

namespace heddle::train {

double stall_limit() { return std::getenv("HEDDLE_TIMEOUT") ? timeout_seconds() : stall_seconds; }

StallWatch::StallWatch(double limit, std::function<uint64_t()> progress, std::function<void(double)> stalled)
    : limit_(limit),
      progress_(std::move(progress)),
      stalled_(std::move(stalled)),
      changed_(Clock::now().time_since_epoch().count()) {
  if (limit_ <= 0) return;
  sampler_ = std::thread([this] { sample(); });
  looker_ = std::thread([this] { look(); });
}

StallWatch::~StallWatch() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  ending_.notify_all();
  if (sampler_.joinable()) sampler_.join();
  if (looker_.joinable()) looker_.join();
}

bool StallWatch::pause() {
  std::unique_lock lock(mutex_);
  const std::chrono::duration<double> each(std::clamp(limit_ / 8, 0.01, 5.0));
  return !ending_.wait_for(lock, each, [this] { return ends_; });
}

void StallWatch::sample() {
  uint64_t before = progress_();
  while (pause()) {
    const uint64_t now = progress_();
    if (now == before) continue;
    before = now;
    changed_ = Clock::now().time_since_epoch().count();
  }
}

void StallWatch::look() {
  while (pause()) {
    const Clock::duration still = Clock::now().time_since_epoch() - Clock::duration(changed_.load());
    if (std::chrono::duration<double>(still).count() > limit_) return stalled_(limit_);
  }
}

}  // namespace heddle::train
