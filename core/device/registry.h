// Registry: the backends this process knows, and how a device is chosen by name.
//
// Purpose: built-in backends are registered by a file that CMake generates; a third party's backend is a shared library
// named heddle_backend_*.so in a folder of HEDDLE_BACKEND_PATH (colon-separated) that exports
//   extern "C" int  heddle_backend_abi();                              // returns heddle::backend_abi_version
//   extern "C" void heddle_register_backend(heddle::Registry& registry);
// Invariants: names are unique; the order of registration is the order of preference among equals.
// Thread safety: all functions may be called from any thread; registration happens once, on first use.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "heddle/core/base/owned.h"
#include "heddle/core/contract/device_info.h"
#include "heddle/core/device/backend.h"

namespace heddle {

class Registry {
 public:
  // The process-wide registry; on first use registers the built-in backends and loads the plug-ins.
  static Registry& instance();

  // Throws ValueError when the name is taken.
  void add(std::unique_ptr<Backend> backend);
  // All devices of all backends, in order of preference (below), unavailable ones last. Plug-ins that failed to load
  // appear as unavailable entries with the reason.
  std::vector<DeviceInfo> devices();
  // "vulkan:0", or "vulkan" for its device 0. Throws DeviceUnavailable with the reason, or with the list of known ids.
  std::unique_ptr<Device> open(std::string_view id, DeviceInfo* info = nullptr);
  // The documented order of preference: discrete GPU through cuda, vulkan, opencl, plug-ins; integrated GPU through
  // vulkan, opencl, plug-ins; CPU driver through opencl, vulkan, plug-ins. reference and null are never chosen unless
  // named. HEDDLE_DEVICE overrides. Throws DeviceUnavailable when nothing is left, with every reason.
  std::string best();

 private:
  Registry();
  struct State;
  Owned<State> state_;
};

// Built by CMake: registers the enabled backends.
void register_builtin_backends(Registry& registry);

}  // namespace heddle
