// DeviceRef: which device something is made on, as the field `device` of options.
//
// Purpose: `{.device = d}` takes a DeviceContext, an id ("vulkan:0") or a pointer; without one it is the default device
// of the moment in which something is made. Invariants: a handle; contexts live until exit. Errors: DeviceUnavailable
// for an id that cannot be opened. Thread safety: a value.
#pragma once

#include <string_view>

namespace heddle {

class DeviceContext;

class DeviceRef {
 public:
  DeviceRef() = default;
  DeviceRef(DeviceContext& device) : device_(&device) {}
  // Null: the default device.
  DeviceRef(DeviceContext* device) : device_(device) {}
  DeviceRef(std::string_view id);
  DeviceRef(const char* id) : DeviceRef(std::string_view(id)) {}

  // As functions that create tensors take it; null: the default device.
  operator DeviceContext*() const { return device_; }
  // The device itself, the default one included.
  DeviceContext& context() const;

 private:
  DeviceContext* device_ = nullptr;
};

}  // namespace heddle
