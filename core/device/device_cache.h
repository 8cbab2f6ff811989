// DeviceCache: what the rooms above keep for a device (DeviceContext::keep()). Thread safety: as its comments say.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace heddle {

// The memory of launches (core/run/launch_memory.h), and compiled graphs (core/run/graph_cache.h). All of it is called
// under the device's lock.
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

}  // namespace heddle
