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
