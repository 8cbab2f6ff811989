// Elementwise functions where integers and bool go their own way, as in NumPy.
//
// Purpose: what a row of elementwise.inc cannot say, because it is one expression for all types. On bool, + and maximum
// are "or", * and minimum are "and", bitwise functions are logical ones, abs changes nothing, and there is no
// difference and no negation. Integers are already rounded, and have powers that are integers. Internal to
// core/functions, for build.cpp. Thread safety: recording is per thread.
#pragma once

#include <optional>

#include "heddle/core/graph/tensor.h"
#include "heddle/core/op/op.h"

namespace heddle::build {

// What `op` is of values that are no floats; nothing where the row itself says it. DTypeError for a difference or
// negation of bool, ValueError for x to a negative number.
std::optional<Tensor> of_whole_numbers(const OpDef& op, const Tensor& x);
std::optional<Tensor> of_whole_numbers(const OpDef& op, const Tensor& x, const Tensor& y);
std::optional<Tensor> of_whole_numbers(const OpDef& op, const Tensor& x, double y);

}  // namespace heddle::build
