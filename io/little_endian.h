// Numbers in files whose least byte comes first. Thread safety: pure.
#pragma once

#include <cstdint>
#include <span>

namespace heddle {

// Of at most 8 bytes.
inline uint64_t little_endian(std::span<const uint8_t> bytes) {
  uint64_t value = 0;
  for (size_t i = bytes.size(); i-- > 0;) value = value << 8 | bytes[i];
  return value;
}

}  // namespace heddle
