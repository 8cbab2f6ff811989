// Overlap: for how long calls were under way, and for how long of that something was computed, measured
// (train/hidden_time.h) or forecast (distributed/forecast/gradient_sync.h).
//
// Invariants: calls that are under way at once count once. Thread safety: pure.
#pragma once

#include <algorithm>
#include <span>

namespace heddle::distributed {

struct Interval {
  double begun = 0, over = 0;  // seconds
};

struct Overlap {
  double calls = 0, hidden = 0;  // seconds

  // 0 without calls.
  double share() const { return calls > 0 ? hidden / calls : 0; }
  Overlap& operator+=(const Overlap& other) {
    calls += other.calls;
    hidden += other.hidden;
    return *this;
  }
};

// Of calls in the order of their beginnings; computing is over at `computed`.
inline Overlap overlap_of(std::span<const Interval> calls, double computed) {
  Overlap found;
  double counted = calls.empty() ? 0 : calls.front().begun;  // up to where
  for (const Interval& call : calls) {
    const double begun = std::max(call.begun, counted);
    found.calls += std::max(call.over - begun, 0.0);
    found.hidden += std::max(std::min(call.over, computed) - begun, 0.0);
    counted = std::max(counted, call.over);
  }
  return found;
}

}  // namespace heddle::distributed
