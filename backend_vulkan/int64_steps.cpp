#include "heddle/backend_vulkan/int64_steps.h"

#include <fmt/format.h>

#include "heddle/core/base/error.h"

namespace heddle::spirv {

void put(std::vector<uint32_t>& out, uint16_t op, const std::vector<uint32_t>& operands) {
  out.push_back(static_cast<uint32_t>(operands.size() + 1) << 16 | op);
  out.insert(out.end(), operands.begin(), operands.end());
}

void Int64Steps::fail(const std::string& what) const {
  throw CompileError(fmt::format("[vulkan compile {}] {}", kernel_, what), "");
}

// ---- instructions and constants

Id Int64Steps::value(uint16_t op, Id type, std::initializer_list<Id> operands) {
  const Id id = fresh();
  std::vector<uint32_t> words{type, id};
  words.insert(words.end(), operands);
  put(code, op, words);
  return id;
}

Id Int64Steps::function(Id type, uint32_t which, Id x) {
  if (names.glsl == 0) fail("does not import GLSL.std.450");
  return value(op_ext_inst, type, {names.glsl, which, x});
}

Id Int64Steps::power_of_two(Id type, int exponent) {
  const auto bits = static_cast<uint32_t>(exponent);
  return is_double(type) ? literal(type, {0, (1023 + bits) << 20}) : literal(type, {(127 + bits) << 23});
}

Id Int64Steps::literal(Id type, std::vector<uint32_t> bits) {
  const auto [known, is_new] = literals_.emplace(std::pair(type, bits), 0);
  if (is_new) {
    known->second = fresh();
    bits.insert(bits.begin(), {type, known->second});
    put(front, op_constant, bits);
  }
  return known->second;
}

// ---- integers

Pair Int64Steps::add(Pair a, Pair b) {
  const Id low = word(op_i_add, a.low, b.low);
  const Id carry = choose(test(op_u_less_than, low, a.low), constant(1), constant(0));
  return {low, word(op_i_add, word(op_i_add, a.high, b.high), carry)};
}

Pair Int64Steps::subtract(Pair a, Pair b) {
  const Id borrow = choose(test(op_u_less_than, a.low, b.low), constant(1), constant(0));
  return {word(op_i_sub, a.low, b.low), word(op_i_sub, word(op_i_sub, a.high, b.high), borrow)};
}

Pair Int64Steps::multiply(Pair a, Pair b) {
  const Id both = value(op_u_mul_extended, names.extended, {a.low, b.low});
  const Id crossed = word(op_i_add, word(op_i_mul, a.low, b.high), word(op_i_mul, a.high, b.low));
  return {part(both, 0), word(op_i_add, part(both, 1), crossed)};
}

// A shift of a word by 32 is undefined, so that the bits that cross go in two steps.
Pair Int64Steps::shift(uint16_t op, Pair a, Id by) {
  const Id few = word(op_bitwise_and, by, constant(31));
  const Id rest = word(op_i_sub, constant(31), few);
  const Id far = test(op_i_not_equal, word(op_bitwise_and, by, constant(32)), constant(0));
  if (op == op_shift_left_logical) {
    const Id low = word(op, a.low, few);
    const Id crossing = word(op_shift_right_logical, word(op_shift_right_logical, a.low, constant(1)), rest);
    const Id high = word(op_bitwise_or, word(op, a.high, few), crossing);
    return {choose(far, constant(0), low), choose(far, low, high)};
  }
  const Id high = word(op, a.high, few);
  const Id crossing = word(op_shift_left_logical, word(op_shift_left_logical, a.high, constant(1)), rest);
  const Id low = word(op_bitwise_or, word(op_shift_right_logical, a.low, few), crossing);
  const Id filling = op == op_shift_right_arithmetic ? word(op, a.high, constant(31)) : constant(0);
  return {choose(far, high, low), choose(far, filling, high)};
}

Pair Int64Steps::magnitude(Pair a, Id negative) {
  const Pair turned = negate(a);
  return {choose(negative, turned.low, a.low), choose(negative, turned.high, a.high)};
}

Pair Int64Steps::widen(Id low, bool is_signed) {
  return {low, is_signed ? word(op_shift_right_arithmetic, low, constant(31)) : constant(0)};
}

// ---- floats

Id Int64Steps::to_float(Pair a, Id type) { return is_double(type) ? to_double(a, type) : to_single(a, type); }

// Both words are doubles without rounding; their sum rounds once.
Id Int64Steps::to_double(Pair a, Id type) {
  const Id high = value(op_f_mul, type, {value(op_convert_u_to_f, type, {a.high}), power_of_two(type, 32)});
  return value(op_f_add, type, {high, value(op_convert_u_to_f, type, {a.low})});
}

// The first 32 bits with, in the last of them, whether any bit follows: that rounds as the whole would.
Id Int64Steps::to_single(Pair a, Id type) {
  const Id first = function(names.uint32, glsl_find_u_msb, word(op_bitwise_or, a.high, constant(1)));
  const Id left = word(op_i_sub, constant(31), first);
  const Id crossing = word(op_shift_right_logical, word(op_shift_right_logical, a.low, constant(1)), first);
  const Id top = word(op_bitwise_or, word(op_shift_left_logical, a.high, left), crossing);
  const Id dropped = test(op_i_not_equal, word(op_shift_left_logical, a.low, left), constant(0));
  const Id sticky = word(op_bitwise_or, top, choose(dropped, constant(1), constant(0)));
  const Id exponent = word(op_i_sub, constant(127 + 32), left);
  const Id scale = value(op_bitcast, type, {word(op_shift_left_logical, exponent, constant(23))});
  const Id large = value(op_f_mul, type, {value(op_convert_u_to_f, type, {sticky}), scale});
  const Id small = value(op_convert_u_to_f, type, {a.low});
  return value(op_select, type, {test(op_i_equal, a.high, constant(0)), small, large});
}

// |x| = high 2^32 + low: all of it is exact.
Pair Int64Steps::from_float(Id x, Id type, bool is_signed) {
  const Id size = is_signed ? function(type, glsl_f_abs, x) : x;
  const Id above = function(type, glsl_trunc, value(op_f_mul, type, {size, power_of_two(type, -32)}));
  const Id below = value(op_f_sub, type, {size, value(op_f_mul, type, {above, power_of_two(type, 32)})});
  const Pair a{value(op_convert_f_to_u, names.uint32, {below}), value(op_convert_f_to_u, names.uint32, {above})};
  return is_signed ? magnitude(a, value(op_f_ord_less_than, names.boolean, {x, zero(type)})) : a;
}

}  // namespace heddle::spirv
