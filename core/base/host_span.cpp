#include "heddle/core/base/host_span.h"

#include <mutex>
#include <shared_mutex>

namespace heddle {

std::atomic<int> detail::span_listeners{0};

namespace {

// Each listener that ever came has a number, so that one that takes the place of another does not hear the end of the
// other's span.
struct Places {
  std::shared_mutex mutex;
  std::array<SpanListener*, 4> listener{};
  std::array<uint64_t, 4> number{};
  uint64_t last = 0;
};

Places& places() {
  static Places* const all = new Places();  // spans run until the process ends
  return *all;
}

}  // namespace

bool add_span_listener(SpanListener& listener) {
  Places& all = places();
  const std::unique_lock guard(all.mutex);
  for (size_t i = 0; i < all.listener.size(); ++i) {
    if (all.listener[i]) continue;
    all.listener[i] = &listener;
    all.number[i] = ++all.last;
    detail::span_listeners.fetch_add(1, std::memory_order_relaxed);
    return true;
  }
  return false;
}

void remove_span_listener(SpanListener& listener) {
  Places& all = places();
  const std::unique_lock guard(all.mutex);
  for (size_t i = 0; i < all.listener.size(); ++i) {
    if (all.listener[i] != &listener) continue;
    all.listener[i] = nullptr;
    all.number[i] = 0;
    detail::span_listeners.fetch_sub(1, std::memory_order_relaxed);
  }
}

void HostSpan::open(const char* name) noexcept {
  Places& all = places();
  const std::shared_lock guard(all.mutex);
  opened_ = true;
  for (size_t i = 0; i < heard_.size(); ++i) {
    heard_[i] = all.number[i];
    if (all.listener[i]) all.listener[i]->begin(name);
  }
}

void HostSpan::close() noexcept {
  Places& all = places();
  const std::shared_lock guard(all.mutex);
  for (size_t i = heard_.size(); i-- > 0;) {
    if (heard_[i] != 0 && heard_[i] == all.number[i]) all.listener[i]->end();
  }
}

}  // namespace heddle
