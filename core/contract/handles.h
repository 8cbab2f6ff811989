// Numbers by which a device names what it made. Thread safety: plain values.
#pragma once

#include <cstdint>

namespace heddle {

// Handles are chosen by the device; 0 is never valid.
enum class BufferId : uint64_t { none = 0 };
enum class KernelId : uint64_t { none = 0 };
enum class RecordingId : uint64_t { none = 0 };
enum class Ticket : uint64_t { none = 0 };

}  // namespace heddle
