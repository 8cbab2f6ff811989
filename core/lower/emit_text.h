// Text helpers of the emitter: substitution into dialect expressions, integer wrapping, helper functions in the
// dialect. Thread safety: pure functions and constants.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "heddle/core/base/dtype.h"
#include "heddle/core/op/op.h"

namespace heddle {

// `expression` over x, y, z with the given operands; float literals become F64 literals when the operands are f64.
std::string substitute(std::string_view expression, const std::vector<std::string>& operands, DType operand_type);
// The row's expression for operands of that type. Integers that are as wide as their arithmetic wrap, which the signed
// operators of C do not promise.
std::string_view dialect_of(const OpDef& op, DType operand_type);
// i8 and u8 are computed as int: brings the value back into range, as storing it would.
std::string wrap_narrow(const std::string& expression, DType dtype);

// A cast of a float (f32 or f64) to an integer dtype, as docs/numbers.md promises it: toward zero, the nearest that the
// dtype holds, 0 for NaN. CAST promises nothing out of range.
std::string saturating_name(DType from, DType to);
std::string saturating_helper(DType from, DType to);
// Rounding to f16 and bf16 inside a kernel: what a cast means even when the value is never stored.
extern const std::string_view round_helpers;
// core/graph/philox.h in the dialect.
extern const std::string_view philox_helper;

}  // namespace heddle
