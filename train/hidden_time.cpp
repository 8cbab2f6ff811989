#include "heddle/train/hidden_time.h"

#include <vector>

namespace heddle::train {

void HiddenTime::add(std::span<const Call> calls, Time computed) {
  if (calls.empty()) return;
  const auto seconds = [&](Time time) { return std::chrono::duration<double>(time - calls.front().begun).count(); };
  std::vector<distributed::Interval> intervals;
  for (const Call& call : calls) intervals.push_back({seconds(call.begun), seconds(call.over)});
  overlap_ += distributed::overlap_of(intervals, seconds(computed));
}

}  // namespace heddle::train
