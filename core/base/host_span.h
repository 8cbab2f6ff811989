// HostSpan: a stretch of host time with a name (plan, compile, submit, wait), for whoever watches.
//
// Purpose: the library says where a thread is; a profiler (core/inspect/profile.h) or a tool of a vendor (NVTX, in
// backend_cuda) listens. Without a listener a span costs one load of an atomic. Invariants: spans of a thread are
// nested; a listener sees `end` for every `begin` that it saw, in reverse order, on the same thread. Names are
// literals: nobody copies them. Thread safety: spans are per thread; listeners may come and go at any time and must
// bear calls from any thread.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

namespace heddle {

class SpanListener {
 public:
  virtual ~SpanListener() = default;
  virtual void begin(const char* name) noexcept = 0;
  virtual void end() noexcept = 0;
};

// At most four listen at once; false when there is no room. remove() returns when no span calls the listener any more.
bool add_span_listener(SpanListener& listener);
void remove_span_listener(SpanListener& listener);

namespace detail {
extern std::atomic<int> span_listeners;
}
inline bool anybody_watches() noexcept { return detail::span_listeners.load(std::memory_order_relaxed) > 0; }

class HostSpan {
 public:
  explicit HostSpan(const char* name) noexcept {
    if (anybody_watches()) open(name);
  }
  ~HostSpan() {
    if (opened_) close();
  }
  HostSpan(const HostSpan&) = delete;
  HostSpan& operator=(const HostSpan&) = delete;

 private:
  void open(const char* name) noexcept;
  void close() noexcept;

  bool opened_ = false;
  std::array<uint64_t, 4> heard_{};  // which listener in each place saw begin(): its number, 0: none
};

}  // namespace heddle
