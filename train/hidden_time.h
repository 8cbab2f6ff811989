// HiddenTime: which share of the time of communication passed while the device computed.
//
// Invariants: those of distributed/overlap.h. Thread safety: none.
#pragma once

#include <chrono>
#include <span>

#include "heddle/distributed/overlap.h"

namespace heddle::train {

class HiddenTime {
 public:
  using Time = std::chrono::steady_clock::time_point;
  struct Call {
    Time begun, over;
  };
  // The calls of an update, in the order of their beginnings, and when the device was done with what they send.
  void add(std::span<const Call> calls, Time computed);
  // 0 where nothing was sent.
  double share() const { return overlap_.share(); }

 private:
  distributed::Overlap overlap_;
};

}  // namespace heddle::train
