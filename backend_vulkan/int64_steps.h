// The 32-bit steps of operations on 64-bit integers, written as SPIR-V (backend_vulkan/int64_words.h).
//
// Invariants: a 64-bit integer is a Pair of 32-bit words; steps append to code(), constants that they need to front(),
// once each. Thread safety: none.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace heddle::spirv {

using Id = uint32_t;

// Instructions of the SPIR-V specification, section 3, by their numbers there.
enum Op : uint16_t {
  op_ext_inst_import = 11,
  op_ext_inst = 12,
  op_capability = 17,
  op_type_first = 19,
  op_type_bool = 20,
  op_type_int = 21,
  op_type_float = 22,
  op_type_vector = 23,
  op_type_array = 28,
  op_type_runtime_array = 29,
  op_type_struct = 30,
  op_type_pointer = 32,
  op_type_function = 33,
  op_type_last = 39,
  op_constant = 43,
  op_constant_composite = 44,
  op_function = 54,
  op_access_chain = 65,
  op_in_bounds_access_chain = 66,
  op_decorate = 71,
  op_composite_construct = 80,
  op_composite_extract = 81,
  op_copy_object = 83,
  op_convert_f_to_u = 109,
  op_convert_f_to_s = 110,
  op_convert_s_to_f = 111,
  op_convert_u_to_f = 112,
  op_u_convert = 113,
  op_s_convert = 114,
  op_bitcast = 124,
  op_s_negate = 126,
  op_f_negate = 127,
  op_i_add = 128,
  op_f_add = 129,
  op_i_sub = 130,
  op_f_sub = 131,
  op_i_mul = 132,
  op_f_mul = 133,
  op_u_mul_extended = 151,
  op_logical_or = 166,
  op_logical_and = 167,
  op_select = 169,
  op_i_equal = 170,
  op_i_not_equal = 171,
  op_u_greater_than = 172,
  op_s_greater_than = 173,
  op_u_greater_than_equal = 174,
  op_s_greater_than_equal = 175,
  op_u_less_than = 176,
  op_s_less_than = 177,
  op_u_less_than_equal = 178,
  op_s_less_than_equal = 179,
  op_f_ord_less_than = 184,
  op_shift_right_logical = 194,
  op_shift_right_arithmetic = 195,
  op_shift_left_logical = 196,
  op_bitwise_or = 197,
  op_bitwise_xor = 198,
  op_bitwise_and = 199,
};

// GLSL.std.450.
constexpr uint32_t glsl_trunc = 3, glsl_f_abs = 4, glsl_s_abs = 5, glsl_find_u_msb = 75;

struct Pair {
  Id low, high;
};

// The ids of a module that the steps name; those of types must be there before the first step.
struct Names {
  Id glsl = 0;  // of the import of GLSL.std.450; 0: none
  Id uint32 = 0, int32 = 0, boolean = 0;
  Id pair = 0;      // uvec2
  Id booleans = 0;  // bvec2
  Id extended = 0;  // the two words of a product
  std::set<Id> doubles;
};

void put(std::vector<uint32_t>& out, uint16_t op, const std::vector<uint32_t>& operands);

class Int64Steps {
 public:
  // `kernel` for errors; `bound`: the first id that is free.
  Int64Steps(const std::string& kernel, Id bound) : kernel_(kernel), bound_(bound) {}

  Names names;
  std::vector<uint32_t> front, code;
  Id bound() const { return bound_; }
  Id fresh() { return bound_++; }
  // CompileError, which names the kernel.
  [[noreturn]] void fail(const std::string& what) const;

  // ---- single instructions; the id of the result
  Id value(uint16_t op, Id type, std::initializer_list<Id> operands);
  Id word(uint16_t op, Id a, Id b) { return value(op, names.uint32, {a, b}); }
  Id test(uint16_t op, Id a, Id b) { return value(op, names.boolean, {a, b}); }
  Id part(Id x, uint32_t which) { return value(op_composite_extract, names.uint32, {x, which}); }
  Pair split(Id x) { return {part(x, 0), part(x, 1)}; }
  Id constant(uint32_t v) { return literal(names.uint32, {v}); }

  // ---- integers
  Pair add(Pair a, Pair b);
  Pair subtract(Pair a, Pair b);
  Pair negate(Pair a) { return subtract({constant(0), constant(0)}, a); }
  Pair multiply(Pair a, Pair b);
  // `op`: one of the three shifts; by 0 to 63.
  Pair shift(uint16_t op, Pair a, Id by);
  // The negated one where `negative` holds.
  Pair magnitude(Pair a, Id negative);
  Id is_negative(Pair a) { return test(op_s_less_than, a.high, constant(0)); }
  // A word of 32 bits as one of 64.
  Pair widen(Id word, bool is_signed);

  // ---- floats: `type` is one of 32 bits or of names.doubles
  // Of an integer without sign, rounded once.
  Id to_float(Pair a, Id type);
  // Of a number within the integer's range, towards zero.
  Pair from_float(Id x, Id type, bool is_signed);

 private:
  Id choose(Id condition, Id yes, Id no) { return value(op_select, names.uint32, {condition, yes, no}); }
  Id function(Id type, uint32_t which, Id x);
  Id to_double(Pair a, Id type);
  Id to_single(Pair a, Id type);
  bool is_double(Id type) const { return names.doubles.count(type) != 0; }
  Id zero(Id type) { return is_double(type) ? literal(type, {0, 0}) : literal(type, {0}); }
  Id power_of_two(Id type, int exponent);
  Id literal(Id type, std::vector<uint32_t> bits);

  const std::string& kernel_;
  Id bound_;
  std::map<std::pair<Id, std::vector<uint32_t>>, Id> literals_;
};

}  // namespace heddle::spirv
