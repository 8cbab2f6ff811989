#include "heddle/core/device/forced_caps.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "heddle/core/base/error.h"
#include "heddle/core/base/parse_number.h"

namespace heddle {

Caps forced_caps(Caps caps) {
  constexpr uint64_t least = 4096;
  const char* text = std::getenv("HEDDLE_MAX_BINDING");
  if (text == nullptr || *text == 0) return caps;
  const std::optional<uint64_t> asked = parse_number<uint64_t>(text);
  if (!asked || *asked < least)
    throw ValueError(
        fmt::format("[device] HEDDLE_MAX_BINDING is '{}'; it must be a number of bytes, at least {}", text, least));
  caps.max_binding_bytes = std::min(caps.max_binding_bytes, *asked);
  return caps;
}

}  // namespace heddle
