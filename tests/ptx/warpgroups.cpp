#include "tests/ptx/warpgroups.h"

#include <algorithm>
#include <limits>

#include "tests/ptx/block.h"
#include "tests/ptx/fault.h"

namespace heddle::ptx {

std::vector<float>& Warpgroups::sums(Block& block, uint32_t warpgroup, const uint32_t* places, uint32_t count) {
  State& state = of_[warpgroup];
  const uint32_t first = 128 * warpgroup;
  const std::vector<uint32_t> key(places, places + count);
  auto found = state.sums.find(key);
  if (found == state.sums.end()) {
    if (!state.fenced) throw LaneFault{FaultKind::in_flight, first, "no wgmma.fence orders the sums' registers"};
    for (const auto& [others, unused] : state.sums) {
      for (const uint32_t place : others) {
        if (std::find(key.begin(), key.end(), place) != key.end())
          throw LaneFault{FaultKind::in_flight, first, "some of the sums are another wgmma's that is on its way"};
      }
    }
    found = state.sums.emplace(key, Sums{}).first;
    found->second.values.resize(size_t{count} * 128);
    for (uint32_t i = 0; i < count; ++i) {
      auto* r = block.at_place<float>(key[i]) + first;
      std::copy_n(r, 128, found->second.values.data() + size_t{i} * 128);
      std::fill_n(r, 128, std::numeric_limits<float>::quiet_NaN());
    }
  }
  found->second.group = state.committed;
  return found->second.values;
}

void Warpgroups::wait(Block& block, uint32_t warpgroup, uint32_t left) {
  State& state = of_[warpgroup];
  const uint32_t first = 128 * warpgroup;
  const auto is_over = [&](uint32_t group) { return group + left < state.committed; };
  for (const Read& read : state.ranges) {
    if (is_over(read.group)) block.shared.leave(first, read.range.address, read.range.bytes);
  }
  std::erase_if(state.ranges, [&](const Read& read) { return is_over(read.group); });
  for (const auto& [places, sums] : state.sums) {
    if (!is_over(sums.group)) continue;
    for (size_t i = 0; i < places.size(); ++i)
      std::copy_n(sums.values.data() + i * 128, 128, block.at_place<float>(places[i]) + first);
    state.fenced = false;
  }
  std::erase_if(state.sums, [&](const auto& entry) { return is_over(entry.second.group); });
}

}  // namespace heddle::ptx
