// The ranges of host memory that kernels may touch.
//
// Purpose: answers for an access whether it lies in one allocation. Invariants: ranges are sorted and apart.
// Thread safety: immutable while kernels run.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

namespace heddle::ptx {

struct MemoryRange {
  uint64_t begin = 0, end = 0;
};

class GlobalMemory {
 public:
  void add(const void* begin, uint64_t bytes) {
    const auto at = reinterpret_cast<uintptr_t>(begin);
    ranges_[at] = {at, at + bytes};
  }
  void remove(const void* begin) { ranges_.erase(reinterpret_cast<uintptr_t>(begin)); }
  // The range that holds the address, or an empty one.
  MemoryRange find(uint64_t address) const {
    auto after = ranges_.upper_bound(address);
    if (after == ranges_.begin()) return {};
    const MemoryRange range = std::prev(after)->second;
    return address < range.end ? range : MemoryRange{};
  }

 private:
  std::map<uint64_t, MemoryRange> ranges_;
};

}  // namespace heddle::ptx
