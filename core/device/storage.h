// Storage: the memory behind tensors. Thread safety: as its comments say; the rest is under the device's lock.
#pragma once

#include <cstdint>
#include <memory>

#include "heddle/core/contract/device.h"
#include "heddle/core/device/allocator.h"

namespace heddle {

class DeviceContext;

// A range of device memory that tensors share. Made by a DeviceContext, which takes the memory back from its last
// owner.
class Storage {
 public:
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  DeviceContext& device() const { return device_; }
  // The bytes asked for; the binding's size is that, rounded up to 4.
  uint64_t bytes() const { return allocation_.bytes; }
  Binding binding() const { return {allocation_.buffer, allocation_.offset, (allocation_.bytes + 3) / 4 * 4}; }
  // Counts writes after the first, by the host or in place; a reader that remembers an older version must not use the
  // contents. Under the device's lock.
  uint64_t version = 0;
  // The latest submission that touches it. None: no submission since the host wrote it, and that write may still be
  // queued. Under the device's lock.
  Ticket last_use = Ticket::none;

 protected:
  Storage(DeviceContext& device, Allocation allocation) : device_(device), allocation_(allocation) {}
  ~Storage() = default;
  const Allocation& allocation() const { return allocation_; }

 private:
  DeviceContext& device_;
  Allocation allocation_;
};
using StoragePtr = std::shared_ptr<Storage>;

}  // namespace heddle
