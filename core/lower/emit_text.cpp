#include "heddle/core/lower/emit_text.h"

#include <fmt/format.h>

#include <cmath>

#include "heddle/core/base/ascii.h"
#include "heddle/core/dialect/types.h"
#include "heddle/core/op/primitives.h"

namespace heddle {
namespace {

size_t number_end(std::string_view text, size_t at) {
  while (at < text.size() && (continues_name(text[at]) || text[at] == '.' ||
                              ((text[at] == '-' || text[at] == '+') && (text[at - 1] == 'e' || text[at - 1] == 'E'))))
    ++at;
  return at;
}

}  // namespace

std::string_view dialect_of(const OpDef& op, DType operand_type) {
  if (operand_type != DType::i32 && operand_type != DType::i64) return op.dialect;
  if (&op == &ops::add_op) return "WADD(x, y)";
  if (&op == &ops::sub_op) return "WSUB(x, y)";
  if (&op == &ops::mul_op) return "WMUL(x, y)";
  if (&op == &ops::square_op) return "WMUL(x, x)";
  if (&op == &ops::neg_op) return operand_type == DType::i32 ? "WSUB(0, x)" : "WSUB(CAST(I64, 0), x)";
  return op.dialect;
}

std::string substitute(std::string_view expression, const std::vector<std::string>& operands, DType operand_type) {
  const bool wide = arith(operand_type) == DType::f64;
  std::string out;
  for (size_t at = 0; at < expression.size();) {
    const char c = expression[at];
    size_t end = at + 1;
    if (starts_name(c)) {
      while (end < expression.size() && continues_name(expression[end])) ++end;
      const std::string_view name = expression.substr(at, end - at);
      const size_t operand =
          name.size() == 1 && name[0] >= 'x' && name[0] <= 'z' ? static_cast<size_t>(name[0] - 'x') : operands.size();
      out += operand < operands.size() ? operands[operand] : std::string(name);
    } else if (is_ascii_digit(c)) {
      end = number_end(expression, at);
      const std::string_view number = expression.substr(at, end - at);
      out += wide && number.back() == 'f' ? fmt::format("F64({})", number.substr(0, number.size() - 1))
                                          : std::string(number);
    } else {
      out += c;
    }
    at = end;
  }
  return out;
}

std::string wrap_narrow(const std::string& expression, DType dtype) {
  if (dtype == DType::i8) return fmt::format("((({}) << 24) >> 24)", expression);
  if (dtype == DType::u8) return fmt::format("(({}) & 255)", expression);
  return expression;
}

std::string saturating_name(DType from, DType to) { return fmt::format("t_{}_of_{}", name_of(to), name_of(from)); }

std::string saturating_helper(DType from, DType to) {
  const int bits = static_cast<int>(8 * size_of(to)) - (to == DType::u8 ? 0 : 1);
  const double least = to == DType::u8 ? 0 : -std::ldexp(1.0, bits), end = std::ldexp(1.0, bits);
  const auto real = [&](double value) { return dialect_literal(value, from); };
  const std::string whole(dialect_type(to)),
      most = to == DType::i64 ? "I64(9223372036854775807)" : dialect_literal(end - 1, to);
  // Only numbers in range are converted: what is not, NaN too, goes in as the least one and is replaced.
  return fmt::format(R"(
FUNC {1} {0}({2} v) {{
  {2} inside = v >= {3} && v < {4} ? v : {3};
  {1} w = CAST({1}, inside);
  w = v >= {4} ? {5} : w;
  return isnan(v) ? {6} : w;
}}
)",
                     saturating_name(from, to), whole, dialect_type(from), real(least), real(end), most,
                     dialect_literal(0, to));
}

const std::string_view round_helpers = R"(
FUNC float t_round_bf16(float v) {
  uint f = AS_UINT(v);
  return isnan(v) ? v : AS_FLOAT((f + 0x7fffu + ((f >> 16) & 1u)) & 0xffff0000u);
}
// A sum with 1.5 * 2^13 times the power of two in v has the spacing of f16, below 2^-14 that of its subnormals. Short, because chains of roundings wait for it.
FUNC float t_round_f16(float v) {
  uint f = AS_UINT(v);
  uint power = f & 0x7f800000u;
  power = power < 0x38800000u ? 0x38800000u : power;
  float unit = AS_FLOAT(power + 0x06c00000u);
  PRECISE float shifted = v + unit;
  PRECISE float near = shifted - unit;
  float r = AS_FLOAT(f & 0x7fffffffu) >= 65520.0f ? INFINITY : near;
  return AS_FLOAT(AS_UINT(r) | (f & 0x80000000u));
}
)";

const std::string_view philox_helper = R"(
// Written out, because a loop inside keeps compilers from vectorising the loop around.
#define T_PHILOX_ROUND \
  p = MULHI(0xD2511F53u, c0); \
  q = MULHI(0xCD9E8D57u, c2); \
  r = 0xD2511F53u * c0; \
  c0 = q ^ c1 ^ k0; \
  c1 = 0xCD9E8D57u * c2; \
  c2 = p ^ c3 ^ k1; \
  c3 = r; \
  k0 = k0 + 0x9E3779B9u; \
  k1 = k1 + 0xBB67AE85u;
FUNC float t_philox(uint k0, uint k1, uint c2, uint c3, uint n) {
  uint c0 = n / 4u;
  uint c1 = 0u;
  uint p, q, r;
  T_PHILOX_ROUND T_PHILOX_ROUND T_PHILOX_ROUND T_PHILOX_ROUND T_PHILOX_ROUND
  T_PHILOX_ROUND T_PHILOX_ROUND T_PHILOX_ROUND T_PHILOX_ROUND T_PHILOX_ROUND
  // By bits: a chain of comparisons becomes a switch, which does not vectorise.
  uint even = (n & 2u) != 0u ? c2 : c0;
  uint odd = (n & 2u) != 0u ? c3 : c1;
  uint word = (n & 1u) != 0u ? odd : even;
  return CAST(float, word >> 8) * 5.96046448e-08f;
}
)";

}  // namespace heddle
