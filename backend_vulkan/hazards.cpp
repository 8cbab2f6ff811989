#include "heddle/backend_vulkan/hazards.h"

#include <algorithm>

namespace heddle::vulkan {

bool Hazards::overlaps(const Ranges& ranges, uint64_t begin, uint64_t end) {
  const auto next = ranges.lower_bound(end);  // the first range that starts at or after `end`
  return next != ranges.begin() && std::prev(next)->second > begin;
}

void Hazards::insert(Ranges& ranges, uint64_t begin, uint64_t end) {
  auto next = ranges.upper_bound(begin);
  if (next != ranges.begin() && std::prev(next)->second >= begin) --next;
  while (next != ranges.end() && next->first <= end) {  // merge all that overlap or touch
    begin = std::min(begin, next->first);
    end = std::max(end, next->second);
    next = ranges.erase(next);
  }
  ranges.emplace(begin, end);
}

bool Hazards::conflict(std::span<const Touch> command) const {
  for (const Touch& touch : command) {
    const auto found = buffers_.find(touch.range.buffer);
    if (found == buffers_.end()) continue;
    const uint64_t begin = touch.range.offset, end = begin + touch.range.size;
    if (overlaps(found->second.written, begin, end)) return true;
    if (touch.writes && overlaps(found->second.read, begin, end)) return true;
  }
  return false;
}

void Hazards::add(std::span<const Touch> command) {
  for (const Touch& touch : command) {
    Touched& touched = buffers_[touch.range.buffer];
    const uint64_t begin = touch.range.offset, end = begin + touch.range.size;
    if (touch.reads) insert(touched.read, begin, end);
    if (touch.writes) insert(touched.written, begin, end);
  }
}

}  // namespace heddle::vulkan
