// The work of the guard against NaN and infinity (core/graph/number_guard.h): looks at a region's results, and finds who made the first bad one.
//
// Invariants: the region's nodes get no value; nothing of the caller's pending work is evaluated. Thread safety: as evaluate().
#pragma once

#include <span>

namespace heddle {

struct Region;
struct StepOutput;

// Throws NumericError when a result of the region, which was computed but not given yet, is at fault.
void check_numbers(const Region& region, std::span<const StepOutput> outputs);

}  // namespace heddle
