// Grids of work groups. Thread safety: pure function.
#pragma once

#include <array>
#include <cstdint>

#include "heddle/core/contract/device.h"

namespace heddle {

// So many groups as a grid of at least as many, in two dimensions where one is too short; LimitError when two are.
std::array<uint32_t, 3> fold_groups(int64_t groups, const Caps& caps);

}  // namespace heddle
