// Schedules of shaders/conv.hk and shaders/conv_weight_grad.hk, as the pickers of their tunables (conv_tiles.cpp,
// conv_cpu_tiles.cpp, conv_winograd.cpp) name them.
// Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "heddle/core/tiles/conv_operands.h"

namespace heddle::conv_schedules {

constexpr int64_t lanes = 0, tiles = 1, packed = 2, registers = 3, rows = 4, winograd = 5, pointwise = 6, dots = 7,
                  strips = 8, planes = 9;

using Row = Bindings;

constexpr int64_t most_floats = 1 << 18;  // of one private array: the bodies' own limit

// Right for every problem and device.
inline const Row any_lanes = {{"SCHEDULE", lanes}, {"LANES", 64}};

// The largest of some of a tunable's choices that is at most `value`, or the smallest (all of them: choices.h).
inline int64_t at_most(int64_t value, std::initializer_list<int64_t> choices) {
  int64_t best = *choices.begin();
  for (int64_t c : choices) {
    if (c <= value) best = c;
  }
  return best;
}

}  // namespace heddle::conv_schedules
