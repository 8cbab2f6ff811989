#include "heddle/core/dialect/types.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdint>

namespace heddle {

std::string_view dialect_type(DType dtype) {
  switch (arith(dtype)) {
    case DType::f64:
      return "F64";
    case DType::i64:
      return "I64";
    case DType::i32:
      return "int";
    case DType::boolean:
      return "bool";
    default:
      return "float";
  }
}

std::string dialect_literal(double value, DType dtype) {
  switch (arith(dtype)) {
    case DType::boolean:
      return value != 0 ? "true" : "false";
    // The least int has no literal of its own: its digits are those of a larger type.
    case DType::i32: {
      const auto wrapped = static_cast<int32_t>(static_cast<int64_t>(value));  // GLSL refuses digits beyond 32 bits
      return wrapped == INT32_MIN ? "(-2147483647 - 1)" : fmt::format("({})", wrapped);
    }
    case DType::i64: {
      const int64_t whole = static_cast<int64_t>(value);
      return whole == INT64_MIN ? "(I64(-9223372036854775807) - I64(1))" : fmt::format("I64({})", whole);
    }
    default:
      break;
  }
  const bool wide = arith(dtype) == DType::f64;
  if (std::isnan(value)) return wide ? "CAST(F64, NAN)" : "NAN";
  const char* infinity = value > 0 ? "INFINITY" : "(-INFINITY)";
  if (std::isinf(value)) return wide ? fmt::format("CAST(F64, {})", infinity) : infinity;
  std::string digits = wide ? fmt::format("{:.17g}", value) : fmt::format("{:.9g}", static_cast<float>(value));
  if (!wide && std::isinf(static_cast<float>(value))) return infinity;
  if (digits.find_first_of(".e") == std::string::npos) digits += ".0";
  return wide ? fmt::format("F64({})", digits) : fmt::format("({}f)", digits);
}

}  // namespace heddle
