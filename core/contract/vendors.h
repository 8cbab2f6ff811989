// The vendors of GPUs by their numbers in PCI, which Caps::vendor_id holds. Thread safety: constants.
#pragma once

#include <cstdint>

namespace heddle::vendors {

inline constexpr uint32_t amd = 0x1002, nvidia = 0x10de, intel = 0x8086;

}  // namespace heddle::vendors
