// Element by element over arrays of the host: sums and extremes of what several ranks have.
//
// Invariants: the order is a balanced binary tree over the sources, ((0+1)+(2+3))+((4+5)+...), whatever the sizes, so
// the result is the same bits each time; f16 and bf16 are added in f32 and rounded once. Thread safety: pure functions.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "heddle/core/base/dtype.h"

namespace heddle::distributed {

// max and min of a NaN and a number are NaN, as Heddle's maximum() has it; sums of integers wrap.
enum class Reduction : uint8_t { sum, max, min };
std::string_view name_of(Reduction reduction);

// Whether ranks can be reduced over values of that type: all but i8, u8 and bool.
bool can_reduce(DType dtype);

// The sources become one; `count` elements each, aligned to their size. They are written over; `result` may be one of
// them. `wide` is room for f16 and bf16, kept from call to call.
void reduce(Reduction reduction, DType dtype, std::span<void* const> sources, void* result, size_t count,
            std::vector<float>& wide);

}  // namespace heddle::distributed
