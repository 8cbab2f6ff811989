// The devices of this machine, for tests that run on each.
// Thread safety: pure but for the registry.
#pragma once

#include <string>
#include <vector>

#include "heddle/core/device/registry.h"

namespace heddle::test {

inline bool runs_kernels(const DeviceInfo& info) {
  return info.available && info.caps.target != Target::none && info.caps.device_class != DeviceClass::null;
}

// Whether this machine has the device; false as well for an id that no backend knows.
inline bool available(const std::string& id) {
  for (const DeviceInfo& info : Registry::instance().devices()) {
    if (info.id == id) return info.available;
  }
  return false;
}

// Every available device that runs kernels, plug-ins included.
inline std::vector<std::string> kernel_devices() {
  std::vector<std::string> ids;
  for (const DeviceInfo& info : Registry::instance().devices()) {
    if (runs_kernels(info)) ids.push_back(info.id);
  }
  return ids;
}

// Those, and the reference device.
inline std::vector<std::string> value_devices() {
  std::vector<std::string> ids = kernel_devices();
  ids.push_back("reference:0");
  return ids;
}

}  // namespace heddle::test
