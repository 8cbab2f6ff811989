// Backend: what a driver's side gives to the registry (core/device/registry.h), built in or as a plug-in.
//
// Thread safety: enumerate() and open() may be called from any thread.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "heddle/core/contract/device_info.h"

namespace heddle {

class Device;  // core/contract/device.h

inline constexpr int backend_abi_version = 4;

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string_view name() const = 0;  // "opencl"
  // Every device of this backend; where the driver is absent, one entry with available == false and the reason.
  // Never throws for an absent driver. May be called repeatedly; the order is stable.
  virtual std::vector<DeviceInfo> enumerate() = 0;
  // Opens the device with that index in enumerate(). Throws DeviceUnavailable or DeviceError.
  virtual std::unique_ptr<Device> open(int index) = 0;
};

}  // namespace heddle
