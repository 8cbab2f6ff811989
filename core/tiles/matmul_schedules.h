// Schedules of shaders/matmul.hk by their numbers; tests/unit/choices_test.cpp compares them with the file's parts.
// Thread safety: constants.
#pragma once

#include <cstdint>

namespace heddle::matmul_schedules {

constexpr int64_t lanes = 0, tiles = 1, columns = 2, packed = 3, dot = 4, units = 5, stream = 6, warpgroups = 7,
                  core_units = 8;

}  // namespace heddle::matmul_schedules
