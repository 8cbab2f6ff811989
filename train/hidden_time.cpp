#include "heddle/train/hidden_time.h"

#include <algorithm>

namespace heddle::train {
namespace {

double seconds(HiddenTime::Time from, HiddenTime::Time to) {
  return std::max(0.0, std::chrono::duration<double>(to - from).count());
}

}  // namespace

void HiddenTime::add(std::span<const Call> calls, Time computed) {
  Time counted = Time::min();  // up to where
  for (const Call& call : calls) {
    const Time begun = std::max(call.begun, counted);
    all_ += seconds(begun, call.over);
    hidden_ += seconds(begun, std::min(call.over, computed));
    counted = std::max(counted, call.over);
  }
}

}  // namespace heddle::train
