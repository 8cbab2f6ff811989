// Hazards: which byte ranges earlier commands of a recording have touched since the last barrier.
//
// Purpose: a barrier is needed exactly where a command reads what was written, or writes what was read or written.
// Invariants: ranges of one buffer and kind are disjoint and sorted; a union never covers a byte that was not touched.
// Thread safety: plain value.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <unordered_map>

#include "heddle/core/contract/device.h"

namespace heddle::vulkan {

struct Touch {
  Binding range;
  bool reads = false;
  bool writes = false;
};

class Hazards {
 public:
  bool conflict(std::span<const Touch> command) const;
  void add(std::span<const Touch> command);
  void clear() { buffers_.clear(); }

 private:
  using Ranges = std::map<uint64_t, uint64_t>;  // begin -> end
  struct Touched {
    Ranges read, written;
  };
  static bool overlaps(const Ranges& ranges, uint64_t begin, uint64_t end);
  static void insert(Ranges& ranges, uint64_t begin, uint64_t end);

  std::unordered_map<BufferId, Touched> buffers_;
};

}  // namespace heddle::vulkan
