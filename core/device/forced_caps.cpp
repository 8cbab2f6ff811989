#include "heddle/core/device/forced_caps.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "heddle/core/base/error.h"
#include "heddle/core/base/parse_number.h"

namespace heddle {

namespace {

// What the variable says, if it is set; `what` are numbers from `least` on.
std::optional<uint64_t> asked(const char* variable, uint64_t least, const char* what) {
  const char* text = std::getenv(variable);
  if (text == nullptr || *text == 0) return std::nullopt;
  const std::optional<uint64_t> number = parse_number<uint64_t>(text);
  if (!number || *number < least)
    throw ValueError(
        fmt::format("[device] {} is '{}'; it must be a number of {}, at least {}", variable, text, what, least));
  return number;
}

}  // namespace

Caps forced_caps(Caps caps) {
  if (const auto bytes = asked("HEDDLE_MAX_BINDING", 4096, "bytes"))
    caps.max_binding_bytes = std::min(caps.max_binding_bytes, *bytes);
  if (const auto floats = asked("HEDDLE_REGISTER_FLOATS", 64, "floats"))
    caps.register_floats = static_cast<uint32_t>(std::min<uint64_t>(*floats, 512));
  return caps;
}

}  // namespace heddle
