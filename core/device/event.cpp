#include "heddle/core/device/event.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "heddle/core/base/host_span.h"
#include "heddle/core/device/context.h"
#include "heddle/core/device/locked_device.h"

namespace heddle {

bool Event::done() const {
  if (!device_ || ticket_ == Ticket::none) return true;
  return device_->lock().device.done(ticket_);
}

void Event::wait() const {
  const HostSpan span("wait");
  using Clock = std::chrono::steady_clock;
  constexpr auto spinning = std::chrono::microseconds(30);
  const Clock::time_point start = Clock::now();
  const double limit = timeout_seconds();
  auto pause = std::chrono::microseconds(5);
  while (!done()) {
    const auto waited = Clock::now() - start;
    if (limit > 0 && std::chrono::duration<double>(waited).count() > limit)
      return device_->lock().device.wait(ticket_, nullptr);  // decides by progress
    if (waited < spinning) {
      std::this_thread::yield();
      continue;
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, std::chrono::microseconds(200));
  }
}

}  // namespace heddle
