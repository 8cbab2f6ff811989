#include "heddle/core/device/in_flight.h"

#include <fmt/format.h>

#include "heddle/core/base/error.h"

namespace heddle {

void throw_unknown_ticket(const char* place, const std::string& device, Ticket ticket) {
  throw DeviceError(
      fmt::format("[{}] {}: ticket {} was never given out", place, device, static_cast<uint64_t>(ticket)));
}

void throw_freed_buffer(const std::string& device, BufferId buffer) {
  throw DeviceError(
      fmt::format("[submit] {}: the recording uses buffer {}, which was freed", device, static_cast<uint64_t>(buffer)));
}

std::string timeout_text(double limit, const std::string& last_commands) {
  return fmt::format("it finished nothing for {} s (HEDDLE_TIMEOUT); last commands: {}", limit,
                     last_commands.empty() ? "none" : last_commands);
}

}  // namespace heddle
