// Builders of elementwise.inc.
#include <cmath>

#include "heddle/onnx/narrow_types.h"
#include "heddle/onnx/ops/build.h"

namespace heddle::onnx::build {
namespace {

// Until opset 6: b's axes begin at `axis` of a, the last ones unless it is given; nothing broadcasts without the flag.
Tensor old_operand(const Call& c, const Tensor& a, const Tensor& b) {
  if (c.opset() >= 7) return b;
  if (c.integer("broadcast", 0) == 0) {
    if (a.shape() != b.shape()) c.fail("shapes differ, and broadcast is 0");
    return b;
  }
  if (!c.has("axis")) return b;
  Tensor placed = b;
  for (int axis = c.axis(c.integer("axis"), a.rank()) + b.rank(); axis < a.rank(); ++axis)
    placed = unsqueeze(placed, -1);
  return placed;
}

template <class F>
void arithmetic(Call& c, const F& f) {
  const Tensor a = c.tensor(0), b = old_operand(c, a, c.tensor(1));
  c.out(wrap(f(a, b, c.type(0)), c.type(0)), c.type(0));
}

template <class F>
void comparison(Call& c, const F& f) {
  const Tensor a = c.tensor(0), b = old_operand(c, a, c.tensor(1));
  c.out(f(in_order(a, c.type(0)), in_order(b, c.type(1))));
}

// All inputs, one after the other.
template <class F>
Tensor folded(Call& c, const F& f) {
  Tensor result = c.tensor(0);
  for (size_t i = 1; i < c.count(); ++i) result = f(result, c.tensor(i));
  return result;
}

}  // namespace

Tensor number(const Call& c, Type type, int64_t value) {
  return c.constant(HostTensor::of_ints(type, Shape{}, {value}));
}

Tensor to_type(const Tensor& x, Type from, Type to, bool saturate) {
  const DType dtype = storage(to);
  if (to == from) return x;
  if (is_narrow_float(to)) return narrowed(from == Type::f64 ? x : to_type(x, from, Type::f32), to, saturate);
  if (bytes_in_file(to, 8) < 8 && onnx::is_float(from))  // whole numbers first: they wrap
    return wrap(heddle::cast(heddle::cast(x, DType::i32), dtype), to);
  if (from == Type::u64 && onnx::is_float(to)) {  // the upper half is negative as i64
    const Tensor wide = heddle::cast(x, dtype);
    return heddle::where(x < 0.0, wide + 18446744073709551616.0, wide);
  }
  if (to == Type::u64 && onnx::is_float(from)) {  // beyond 2^63 less 2^64
    const Tensor large = heddle::cast(x - 18446744073709551616.0, DType::i64);
    return heddle::where(x >= 9223372036854775808.0, large, heddle::cast(x, DType::i64));
  }
  return wrap(heddle::cast(x, dtype), to);
}

Tensor divided(const Tensor& a, const Tensor& b, Type type) {
  if (onnx::is_float(type)) return heddle::div(a, b);
  if (type == Type::u64) {
    // Half of a, shifted without its sign, by b; twice that and what is left over. Divisors of 2^63 and more go once.
    const Tensor shifted = heddle::bitwise_right_shift(a, ones_like(a));
    const Tensor half = heddle::where(shifted < 0.0, in_order(shifted, type), shifted);
    const Tensor safe = heddle::where(b < 0.0, ones_like(b), b);
    const Tensor twice = integer_quotient(half, safe) * 2.0;
    const Tensor once = heddle::cast(in_order(a - twice * safe, type) >= in_order(safe, type), DType::i64);
    const Tensor large = heddle::cast(in_order(a, type) >= in_order(b, type), DType::i64);
    return heddle::where(b < 0.0, large, twice + once);
  }
  const Tensor below = integer_quotient(a, b);
  if (is_unsigned(type)) return below;
  const Tensor left = logical_and(heddle::ne(below * b, a), logical_xor(a < 0.0, b < 0.0));
  return below + heddle::cast(left, below.dtype());
}

#define HEDDLE_UNARY_OP(name, function) \
  void name(Call& c) { c.out(wrap(heddle::function(c.tensor(0)), c.type(0)), c.type(0)); }
HEDDLE_UNARY_OP(acos, acos)
HEDDLE_UNARY_OP(acosh, acosh)
HEDDLE_UNARY_OP(asin, asin)
HEDDLE_UNARY_OP(asinh, asinh)
HEDDLE_UNARY_OP(atan, atan)
HEDDLE_UNARY_OP(atanh, atanh)
HEDDLE_UNARY_OP(bitwise_not, bitwise_not)
HEDDLE_UNARY_OP(ceil, ceil)
HEDDLE_UNARY_OP(cos, cos)
HEDDLE_UNARY_OP(cosh, cosh)
HEDDLE_UNARY_OP(erf, erf)
HEDDLE_UNARY_OP(exp, exp)
HEDDLE_UNARY_OP(floor, floor)
HEDDLE_UNARY_OP(log, log)
HEDDLE_UNARY_OP(neg, neg)
HEDDLE_UNARY_OP(reciprocal, reciprocal)
HEDDLE_UNARY_OP(round, round)
HEDDLE_UNARY_OP(sin, sin)
HEDDLE_UNARY_OP(sinh, sinh)
HEDDLE_UNARY_OP(sqrt, sqrt)
HEDDLE_UNARY_OP(tan, tan)
#undef HEDDLE_UNARY_OP

void absolute(Call& c) {
  c.out(is_unsigned(c.type(0)) ? c.tensor(0) : wrap(heddle::abs(c.tensor(0)), c.type(0)), c.type(0));
}

void sign(Call& c) {
  const Type type = c.type(0);
  const Tensor x = c.tensor(0);
  c.out(type == Type::u64 ? heddle::cast(heddle::ne(x, 0.0), DType::i64) : heddle::sign(x), type);
}

void identity(Call& c) { c.out(c.any(0)); }
void is_nan(Call& c) { c.out(isnan(c.tensor(0))); }
void logical_not(Call& c) { c.out(heddle::logical_not(c.tensor(0))); }

void is_inf(Call& c) {
  const Tensor x = c.tensor(0);
  const bool negative = c.integer("detect_negative", 1) != 0, positive = c.integer("detect_positive", 1) != 0;
  if (!negative && !positive) return c.out(zeros(x.shape(), DType::boolean, &c.device()));
  const Tensor infinite = isinf(x);
  c.out(negative && positive ? infinite : heddle::logical_and(infinite, negative ? x < 0.0 : x > 0.0));
}

void add(Call& c) {
  arithmetic(c, [](const Tensor& a, const Tensor& b, Type) { return a + b; });
}
void sub(Call& c) {
  arithmetic(c, [](const Tensor& a, const Tensor& b, Type) { return a - b; });
}
void mul(Call& c) {
  arithmetic(c, [](const Tensor& a, const Tensor& b, Type) { return a * b; });
}
void div(Call& c) { arithmetic(c, divided); }

void mod(Call& c) {
  const bool as_c = c.integer("fmod", 0) != 0;
  arithmetic(c, [&](const Tensor& a, const Tensor& b, Type type) {
    if (type == Type::u64) return a - divided(a, b, type) * b;
    return as_c ? heddle::fmod(a, b) : heddle::mod(a, b);
  });
}

void pow(Call& c) {
  const Type type = c.type(0), power = c.type(1);
  const Tensor x = c.tensor(0), y = old_operand(c, x, c.tensor(1));
  if (onnx::is_float(type)) return c.out(heddle::pow(x, to_type(y, power, type)), type);
  const Tensor whole = to_type(y, power, type);
  const Tensor exact = heddle::pow(x, whole);
  if (!onnx::is_float(power)) return c.out(wrap(exact, type), type);
  const Tensor real = heddle::cast(heddle::pow(to_type(x, type, Type::f32), to_type(y, power, Type::f32)), x.dtype());
  c.out(wrap(heddle::where(heddle::eq(y, heddle::round(y)), exact, real), type), type);
}

void bit_shift(Call& c) {
  const Type type = c.type(0);
  const Tensor x = c.tensor(0), by = c.tensor(1);
  if (c.text("direction") == "LEFT") return c.out(wrap(bitwise_left_shift(x, by), type), type);
  if (type != Type::u64) return c.out(bitwise_right_shift(x, by), type);
  // Shifted as a signed number, without the copies of its sign.
  const Tensor kept = heddle::bitwise_not(bitwise_left_shift(full_like(x, -1), 64.0 - by));
  c.out(heddle::where(heddle::eq(by, 0.0), x, heddle::bitwise_and(bitwise_right_shift(x, by), kept)), type);
}

#define HEDDLE_BITS(name) \
  void name(Call& c) { c.out(heddle::name(c.tensor(0), c.tensor(1)), c.type(0)); }
HEDDLE_BITS(bitwise_and)
HEDDLE_BITS(bitwise_or)
HEDDLE_BITS(bitwise_xor)
#undef HEDDLE_BITS

#define HEDDLE_LOGIC(name) \
  void name(Call& c) { c.out(heddle::name(c.tensor(0), old_operand(c, c.tensor(0), c.tensor(1)))); }
HEDDLE_LOGIC(logical_and)
HEDDLE_LOGIC(logical_or)
HEDDLE_LOGIC(logical_xor)
#undef HEDDLE_LOGIC

#define HEDDLE_COMPARISON(name, function)                                                   \
  void name(Call& c) {                                                                      \
    comparison(c, [](const Tensor& a, const Tensor& b) { return heddle::function(a, b); }); \
  }
HEDDLE_COMPARISON(equal, eq)
HEDDLE_COMPARISON(greater, gt)
HEDDLE_COMPARISON(greater_equal, ge)
HEDDLE_COMPARISON(less, lt)
HEDDLE_COMPARISON(less_equal, le)
#undef HEDDLE_COMPARISON

void max(Call& c) {
  const Type type = c.type(0);
  Tensor largest = in_order(c.tensor(0), type);
  for (size_t i = 1; i < c.count(); ++i) largest = maximum(largest, in_order(c.tensor(i), type));
  c.out(in_order(largest, type), type);
}

void min(Call& c) {
  const Type type = c.type(0);
  Tensor least = in_order(c.tensor(0), type);
  for (size_t i = 1; i < c.count(); ++i) least = minimum(least, in_order(c.tensor(i), type));
  c.out(in_order(least, type), type);
}

void sum(Call& c) {
  c.out(folded(c, [](const Tensor& a, const Tensor& b) { return a + b; }), c.type(0));
}

void mean(Call& c) {
  const Tensor total = folded(c, [](const Tensor& a, const Tensor& b) { return a + b; });
  c.out(total / static_cast<double>(c.count()), c.type(0));
}

void where(Call& c) { c.out(heddle::where(c.tensor(0), c.tensor(1), c.tensor(2)), c.type(1)); }

void clip(Call& c) {
  const Type type = c.type(0);
  Tensor x = in_order(c.tensor(0), type);
  if (c.opset() < 11) {
    std::optional<double> low, high;
    if (c.has("min")) low = c.real("min");
    if (c.has("max")) high = c.real("max");
    return c.out(clamp(x, low, high), type);
  }
  if (c.given(1)) x = maximum(x, in_order(reshape(c.tensor(1), Shape{}), type));
  if (c.given(2)) x = minimum(x, in_order(reshape(c.tensor(2), Shape{}), type));
  c.out(in_order(x, type), type);
}

void cast(Call& c) {
  const Type to = static_cast<Type>(c.integer("to"));
  c.out(to_type(c.tensor(0), c.type(0), to, c.integer("saturate", 1) != 0), to);
}

void cast_like(Call& c) { c.out(to_type(c.tensor(0), c.type(0), c.type(1), c.integer("saturate", 1) != 0), c.type(1)); }

}  // namespace heddle::onnx::build
