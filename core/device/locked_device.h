// What lies behind a DeviceContext, for the rooms that submit work: the raw device under its lock, and what they keep
// for it. Thread safety: a Locked holds the device's lock while it lives.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>

#include "heddle/core/contract/device.h"
#include "heddle/core/device/allocator.h"
#include "heddle/core/device/context.h"

namespace heddle {

// What the rooms above keep for a device: the memory of launches (core/run/launch_memory.h), and compiled graphs
// (core/run/graph_cache.h). All of it is called under the device's lock.
class DeviceCache {
 public:
  virtual ~DeviceCache() = default;
  // Gives back the memory that it holds: the device has none left.
  virtual void clear() = 0;
  // Bytes of the arenas that it holds.
  virtual uint64_t arena_bytes() const { return 0; }
  // "; computes model.cpp:17": the user's lines behind the kernels that an error's text names, or "".
  virtual std::string lines_note(std::string_view) const { return {}; }
};

struct DeviceContext::Locked {
  std::unique_lock<std::recursive_mutex> lock;
  Device& device;
  DeviceCounters& counters;
  CachingAllocator& allocator;
};

}  // namespace heddle
