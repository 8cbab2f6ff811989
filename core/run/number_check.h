// The work of the guard against NaN and infinity (core/graph/number_guard.h): looks at an evaluation's results, and
// finds who made the first bad one.
//
// Invariants: the evaluation's nodes get no value; nothing of the caller's pending work is evaluated. Thread safety: as
// evaluate().
#pragma once

#include <span>

namespace heddle {

struct Evaluation;
struct GraphOutput;

// Throws NumericError when a result of the evaluation, which was computed but not given yet, is at fault.
void check_numbers(const Evaluation& evaluation, std::span<const GraphOutput> outputs);

}  // namespace heddle
