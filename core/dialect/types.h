// Types and literals of the dialect.
// Thread safety: pure functions.
#pragma once

#include <string>
#include <string_view>

#include "heddle/core/base/dtype.h"

namespace heddle {

// The dialect's name of an arithmetic type: float, F64, int, I64, bool.
std::string_view dialect_type(DType dtype);
// `value` as a literal of that dtype's arithmetic type.
std::string dialect_literal(double value, DType dtype);

}  // namespace heddle
