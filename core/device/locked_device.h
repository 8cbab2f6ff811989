// What lies behind a DeviceContext, for the rooms that submit work: the raw device under its lock. Thread safety: a
// LockedDevice holds the device's lock while it lives.
#pragma once

#include <mutex>

#include "heddle/core/contract/device.h"
#include "heddle/core/device/allocator.h"
#include "heddle/core/device/device_counters.h"

namespace heddle {

// Given by DeviceContext::lock().
struct LockedDevice {
  std::unique_lock<std::recursive_mutex> lock;
  Device& device;
  DeviceCounters& counters;
  CachingAllocator& allocator;
};

}  // namespace heddle
