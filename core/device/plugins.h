// Loads third-party backends: shared libraries named heddle_backend_*.so in the folders of HEDDLE_BACKEND_PATH.
// Thread safety: used by the registry once, when it is made. Loaded libraries stay loaded.
#pragma once

#include <string>
#include <vector>

#include "heddle/core/contract/device_info.h"

namespace heddle {

class Registry;  // plug-ins register with it; nothing is asked of it here

// Registers every plug-in found in the colon-separated folders, by name within a folder; returns one unavailable entry
// with the reason for each that could not be loaded, and for each folder that cannot be read.
std::vector<DeviceInfo> load_plugins(Registry& registry, const std::string& folders);

}  // namespace heddle
