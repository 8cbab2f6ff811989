#include "heddle/core/functions/math/whole_numbers.h"

#include <fmt/format.h>

#include <cmath>

#include "heddle/core/base/error.h"
#include "heddle/core/functions/functions.h"
#include "heddle/core/op/primitives.h"

namespace heddle::build {
namespace {

bool is_bool(const Tensor& x) { return x.dtype() == DType::boolean; }

// x^n for n >= 0, by squaring.
Tensor whole_power(const Tensor& x, int64_t n) {
  if (n == 0) return ones_like(x);
  Tensor square = x, result;
  for (; n != 0; n /= 2) {
    if (n % 2 != 0) result = result.defined() ? result * square : square;
    if (n > 1) square = square * square;
  }
  return result;
}

// x^y by squaring over seven bits of y. A larger y is replaced by 64 or 65, of its parity: that is right for 0, 1, -1
// and even x, whose powers are 0 by then, and others are far beyond overflow. Below 0 the quotient 1 / x^|y| is whole
// for 1 and -1 alone, and counts as 0 for others.
Tensor whole_power(const Tensor& x, const Tensor& y) {
  const Tensor odd = bitwise_and(y, 1);
  const Tensor n = where(y > 65, odd + 64, where(y < 0, odd, y));
  Tensor square = x, result = ones_like(x);
  for (int bit = 0; bit < 7; ++bit) {
    result = where(bitwise_and(n, static_cast<double>(1 << bit)) != 0, result * square, result);
    if (bit < 6) square = square * square;
  }
  return where((y < 0) && (x != 1) && (x != -1), 0, result);
}

}  // namespace

std::optional<Tensor> of_whole_numbers(const OpDef& op, const Tensor& x) {
  const bool rounds = &op == &ops::floor_op || &op == &ops::ceil_op || &op == &ops::round_op || &op == &ops::trunc_op;
  if (rounds) return x;
  if (!is_bool(x)) return {};
  if (&op == &ops::neg_op)
    throw DTypeError("[neg] bool has no negative; did you mean logical_not()? Else cast() it to an integer dtype");
  if (&op == &ops::bitwise_not_op) return logical_not(x);
  return &op == &ops::abs_op ? std::optional(x) : std::nullopt;
}

std::optional<Tensor> of_whole_numbers(const OpDef& op, const Tensor& x, const Tensor& y) {
  if (&op == &ops::pow_op) {
    broadcast_shapes(x.shape(), y.shape(), "pow");
    const DType t = promote(x.dtype(), y.dtype()) == DType::boolean ? DType::i32 : promote(x.dtype(), y.dtype());
    return whole_power(cast(x, t), cast(y, t));
  }
  if (!is_bool(x) || !is_bool(y)) return {};
  if (&op == &ops::sub_op)
    throw DTypeError("[sub] bool has no difference; did you mean logical_xor()? Else cast() to an integer dtype");
  if (&op == &ops::add_op || &op == &ops::maximum_op || &op == &ops::bitwise_or_op) return logical_or(x, y);
  if (&op == &ops::mul_op || &op == &ops::minimum_op || &op == &ops::bitwise_and_op) return logical_and(x, y);
  if (&op == &ops::bitwise_xor_op) return ne(x, y);
  return {};
}

std::optional<Tensor> of_whole_numbers(const OpDef& op, const Tensor& x, double y) {
  if (&op != &ops::pow_op || y != std::floor(y) || std::abs(y) > 1e6) return {};
  if (y < 0) throw ValueError(fmt::format("[pow] integers have no integer power {}; cast() x to a floating dtype", y));
  return whole_power(is_bool(x) ? cast(x, DType::i32) : x, static_cast<int64_t>(y));
}

}  // namespace heddle::build
