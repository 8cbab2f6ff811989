#include "heddle/backend_vulkan/int64_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <map>
#include <set>
#include <span>
#include <string_view>
#include <utility>

#include "heddle/core/base/error.h"

namespace heddle {
namespace {

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
constexpr uint32_t capability_int64 = 11, decoration_no_contraction = 42;
// GLSL.std.450.
constexpr uint32_t glsl_trunc = 3, glsl_f_abs = 4, glsl_s_abs = 5, glsl_find_u_msb = 75;

// What stays as it is when its types change: copies, memory, composites, control flow, and bit operations, which
// vectors have too.
bool passes(uint16_t op) {
  constexpr uint16_t same[] = {1,  8,  44, 46, 54,  55,  56,  57,  59,  61,  62,  63,  65,  66,  79, 80,
                               81, 82, 83, 77, 197, 198, 199, 200, 224, 225, 245, 246, 247, 248, 317};
  return std::find(std::begin(same), std::end(same), op) != std::end(same) || (op >= 249 && op <= 255);
}

struct Instruction {
  uint16_t op;
  std::vector<uint32_t> words;  // operands, without the first word
};

struct Pair {
  Id low, high;
};

class Lowering {
 public:
  Lowering(const std::vector<uint32_t>& words, const std::string& name) : name_(name), header_(words) {
    if (words.size() < 5) fail("is no SPIR-V");
    bound_ = words[3];
    for (size_t at = 5; at < words.size();) {
      const size_t length = words[at] >> 16;
      if (length == 0 || at + length > words.size()) fail("is damaged SPIR-V");
      all_.push_back(
          {static_cast<uint16_t>(words[at] & 0xffffu),
           {words.begin() + static_cast<ptrdiff_t>(at) + 1, words.begin() + static_cast<ptrdiff_t>(at + length)}});
      at += length;
    }
  }

  std::vector<uint32_t> run() {
    scan();
    if (wide_types_.empty()) return header_;
    make_types();
    size_t at = 0;
    for (; at < all_.size() && !is_type(all_[at].op); ++at) annotation(all_[at]);
    for (; at < all_.size() && all_[at].op != op_function; ++at) global(all_[at]);
    for (; at < all_.size(); ++at) code(all_[at]);
    std::vector<uint32_t> out(header_.begin(), header_.begin() + 5);
    out[3] = bound_;
    for (const auto* part : {&head_, &front_, &globals_, &code_}) out.insert(out.end(), part->begin(), part->end());
    return out;
  }

 private:
  static bool is_type(uint16_t op) { return op >= op_type_first && op <= op_type_last; }
  [[noreturn]] void fail(const std::string& what) const {
    throw CompileError(fmt::format("[vulkan compile {}] {}", name_, what), "");
  }

  // ---- what there is
  void scan() {
    for (const Instruction& i : all_) {
      const auto& w = i.words;
      if (i.op == op_ext_inst_import) {
        if (std::string_view(reinterpret_cast<const char*>(&w[1])) == "GLSL.std.450") glsl_ = w[0];
      } else if (is_type(i.op)) {
        scan_type(i);
      } else if (!w.empty() && i.op != op_decorate && w.size() >= 2 && types_.count(w[0]) != 0) {
        type_of_[w[1]] = w[0];
        if (wide_types_.count(w[0]) != 0) wide_.insert(w[1]);
      }
    }
  }

  void scan_type(const Instruction& i) {
    const auto& w = i.words;
    types_.insert(w[0]);
    if (i.op == op_type_int && w[1] == 64) wide_types_.insert(w[0]);
    if (i.op == op_type_int && w[1] == 32) (w[2] == 0 ? uint_ : int_) = w[0];
    if (i.op == op_type_bool) bool_ = w[0];
    if (i.op == op_type_float) (w[1] == 64 ? doubles_ : floats_).insert(w[0]);
    if (i.op == op_type_vector && w[1] == uint_ && w[2] == 2) pair_ = w[0];
    if (i.op == op_type_vector && w[1] == bool_ && w[2] == 2) bools_ = w[0];
    if (i.op == op_type_vector && wide_types_.count(w[1]) != 0) fail("has a vector of 64-bit integers");
  }

  // ---- the types and constants that all else rests on come first
  void make_types() {
    const auto make = [&](Id& id, uint16_t op, std::initializer_list<uint32_t> operands) {
      if (id == 0) id = fresh();
      hoisted_.insert(id);
      std::vector<uint32_t> words{id};
      words.insert(words.end(), operands);
      put(front_, op, words);
    };
    make(uint_, op_type_int, {32, 0});
    make(bool_, op_type_bool, {});
    for (const Id f : floats_) hoist_float(f, 32);
    for (const Id f : doubles_) hoist_float(f, 64);
    make(pair_, op_type_vector, {uint_, 2});
    make(bools_, op_type_vector, {bool_, 2});
    extended_ = fresh();
    put(front_, op_type_struct, {extended_, uint_, uint_});
    for (const Id t : wide_types_) renamed_[t] = pair_;
  }
  void hoist_float(Id id, uint32_t bits) {
    hoisted_.insert(id);
    put(front_, op_type_float, {id, bits});
  }

  void annotation(const Instruction& i) {
    if (i.op == op_capability && i.words[0] == capability_int64) return;
    // An instruction of integers does not contract, and what takes its place may not carry that word.
    if (i.op == op_decorate && i.words[1] == decoration_no_contraction && wide_.count(i.words[0]) != 0) return;
    put(head_, i.op, i.words);
  }

  void global(const Instruction& i) {
    std::vector<uint32_t> w = i.words;
    if (is_type(i.op)) {
      if (hoisted_.count(w[0]) != 0 || wide_types_.count(w[0]) != 0) return;
      rename_parts(i.op, w);
      // Function types, unlike pointers and structures, are one when they are equal.
      if (i.op == op_type_function) {
        const auto [known, fresh_one] = functions_.emplace(std::vector<uint32_t>(w.begin() + 1, w.end()), w[0]);
        if (!fresh_one) {
          renamed_[w[0]] = known->second;
          return;
        }
      }
      return put(globals_, i.op, w);
    }
    if (i.op == op_constant && wide_.count(w[1]) != 0)
      return put(globals_, op_constant_composite, {pair_, w[1], constant(w[2]), constant(w[3])});
    if (typed(w) && wide_types_.count(w[0]) != 0 && !passes(i.op)) refuse(i.op);
    if (typed(w)) w[0] = renamed(w[0]);
    put(globals_, i.op, w);
  }

  void rename_parts(uint16_t op, std::vector<uint32_t>& w) const {
    if (op == op_type_array || op == op_type_runtime_array) w[1] = renamed(w[1]);
    if (op == op_type_pointer) w[2] = renamed(w[2]);
    if (op == op_type_struct || op == op_type_function) {
      for (size_t k = 1; k < w.size(); ++k) w[k] = renamed(w[k]);
    }
  }

  // ---- code
  bool typed(const std::vector<uint32_t>& w) const { return w.size() >= 2 && types_.count(w[0]) != 0; }

  void code(const Instruction& i) {
    std::vector<uint32_t> w = i.words;
    const bool has_type = typed(w);
    const bool wide = has_type && wide_.count(w[1]) != 0;
    bool reads = false;
    for (size_t k = i.op == op_ext_inst ? 4 : has_type ? 2 : 0; k < w.size(); ++k) reads = reads || is_wide(w[k]);
    if (has_type && !passes(i.op) && (wide || reads)) return lower(i);
    if (reads && !passes(i.op) && !has_type) refuse(i.op);
    if (i.op == op_access_chain || i.op == op_in_bounds_access_chain) {
      for (size_t k = 3; k < w.size(); ++k) {
        if (is_wide(w[k])) fail("indexes by a 64-bit integer");
      }
    }
    if (has_type) w[0] = renamed(w[0]);
    if (i.op == op_function) w[3] = renamed(w[3]);
    put(code_, i.op, w);
  }

  void lower(const Instruction& i) {
    const auto& w = i.words;
    type_ = renamed(w[0]);
    result_ = w[1];
    switch (i.op) {
      case op_i_add:
        return give(add(split(w[2]), split(w[3])));
      case op_i_sub:
        return give(subtract(split(w[2]), split(w[3])));
      case op_i_mul:
        return give(multiply(split(w[2]), split(w[3])));
      case op_s_negate:
        return give(negate(split(w[2])));
      case op_shift_left_logical:
      case op_shift_right_logical:
      case op_shift_right_arithmetic:
        return is_wide(w[1]) ? give(shift(i.op, split(w[2]), amount(w[3])))
                             : put(code_, i.op, {type_, result_, w[2], amount(w[3])});
      case op_select: {
        const Id both = value(op_composite_construct, bools_, {w[2], w[2]});
        return put(code_, op_select, {type_, result_, both, w[3], w[4]});
      }
      case op_s_convert:
      case op_u_convert:
        return is_wide(w[1]) ? give(widen(w[2], i.op == op_s_convert)) : narrow(w[2]);
      case op_bitcast:
        return type_ == pair_ ? put(code_, type_at(w[2]) == pair_ ? op_copy_object : op_bitcast, {type_, result_, w[2]})
                              : put(code_, op_bitcast, {type_, result_, w[2]});
      case op_convert_s_to_f:
      case op_convert_u_to_f:
        return to_float(split(w[2]), i.op == op_convert_s_to_f);
      case op_convert_f_to_s:
      case op_convert_f_to_u:
        return from_float(w[2], i.op == op_convert_f_to_s);
      case op_ext_inst:
        if (w[3] == glsl_s_abs) return absolute(split(w[4]));
        return fail(fmt::format("has a function of 64-bit integers (GLSL.std.450 {}) that this device lacks", w[3]));
      default:
        return compare(i.op, split(w[2]), split(w[3]));
    }
  }

  // The result of a comparison, from those of the words.
  void compare(uint16_t op, Pair a, Pair b) {
    switch (op) {
      case op_i_equal:
        return give(op_logical_and, test(op_i_equal, a.low, b.low), test(op_i_equal, a.high, b.high));
      case op_i_not_equal:
        return give(op_logical_or, test(op_i_not_equal, a.low, b.low), test(op_i_not_equal, a.high, b.high));
      case op_s_greater_than:
      case op_u_greater_than:
      case op_s_less_than_equal:
      case op_u_less_than_equal:
        std::swap(a, b);
        break;
      case op_s_less_than:
      case op_u_less_than:
      case op_s_greater_than_equal:
      case op_u_greater_than_equal:
        break;
      default:
        refuse(op);
    }
    const bool is_signed =
        op == op_s_less_than || op == op_s_greater_than || op == op_s_less_than_equal || op == op_s_greater_than_equal;
    const bool or_equal = op == op_s_less_than_equal || op == op_s_greater_than_equal || op == op_u_less_than_equal ||
                          op == op_u_greater_than_equal;
    // a < b, or not a < b, by the words: the higher ones decide unless they are equal.
    const Id low = test(or_equal ? op_u_greater_than_equal : op_u_less_than, a.low, b.low);
    const uint16_t less = is_signed ? op_s_less_than : op_u_less_than;
    const uint16_t greater = is_signed ? op_s_greater_than : op_u_greater_than;
    const Id high = test(or_equal ? greater : less, a.high, b.high);
    const Id equal = test(op_i_equal, a.high, b.high);
    give(op_logical_or, high, value(op_logical_and, bool_, {equal, low}));
  }

  // ---- steps on pairs of words
  Pair add(Pair a, Pair b) {
    const Id low = word(op_i_add, a.low, b.low);
    const Id carry = choose(test(op_u_less_than, low, a.low), constant(1), constant(0));
    return {low, word(op_i_add, word(op_i_add, a.high, b.high), carry)};
  }
  Pair subtract(Pair a, Pair b) {
    const Id borrow = choose(test(op_u_less_than, a.low, b.low), constant(1), constant(0));
    return {word(op_i_sub, a.low, b.low), word(op_i_sub, word(op_i_sub, a.high, b.high), borrow)};
  }
  Pair negate(Pair a) { return subtract({constant(0), constant(0)}, a); }
  Pair multiply(Pair a, Pair b) {
    const Id both = value(op_u_mul_extended, extended_, {a.low, b.low});
    const Id crossed = word(op_i_add, word(op_i_mul, a.low, b.high), word(op_i_mul, a.high, b.low));
    return {part(both, 0), word(op_i_add, part(both, 1), crossed)};
  }
  // By 0 to 63. A shift of a word by 32 is undefined, so that the bits that cross go in two steps.
  Pair shift(uint16_t op, Pair a, Id by) {
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
  Pair magnitude(Pair a, Id negative) {
    const Pair turned = negate(a);
    return {choose(negative, turned.low, a.low), choose(negative, turned.high, a.high)};
  }
  Id is_negative(Pair a) { return test(op_s_less_than, a.high, constant(0)); }
  void absolute(Pair a) { give(magnitude(a, is_negative(a))); }

  // ---- conversions
  Pair widen(Id x, bool is_signed) {
    const Id type = type_at(x);
    if (type != uint_ && type != int_) fail("widens an integer that has not 32 bits");
    const Id low = type == uint_ ? x : value(op_bitcast, uint_, {x});
    return {low, is_signed ? word(op_shift_right_arithmetic, low, constant(31)) : constant(0)};
  }
  void narrow(Id x) {
    if (type_ != uint_ && type_ != int_) fail("narrows a 64-bit integer to other than 32 bits");
    put(code_, type_ == uint_ ? op_copy_object : op_bitcast, {type_, result_, part(x, 0)});
  }

  void to_float(Pair a, bool is_signed) {
    const Id negative = is_signed ? is_negative(a) : 0;
    const Pair size = is_signed ? magnitude(a, negative) : a;
    const Id x = doubles_.count(type_) != 0 ? to_double(size) : to_single(size);
    if (!is_signed) return put(code_, op_copy_object, {type_, result_, x});
    put(code_, op_select, {type_, result_, negative, value(op_f_negate, type_, {x}), x});
  }
  // Both words are doubles without rounding; their sum rounds once.
  Id to_double(Pair a) {
    const Id high = value(op_f_mul, type_, {value(op_convert_u_to_f, type_, {a.high}), power(type_, 32)});
    return value(op_f_add, type_, {high, value(op_convert_u_to_f, type_, {a.low})});
  }
  // The first 32 bits with, in the last of them, whether any bit follows: that rounds as the whole would.
  Id to_single(Pair a) {
    const Id first = function(uint_, glsl_find_u_msb, word(op_bitwise_or, a.high, constant(1)));
    const Id left = word(op_i_sub, constant(31), first);
    const Id crossing = word(op_shift_right_logical, word(op_shift_right_logical, a.low, constant(1)), first);
    const Id top = word(op_bitwise_or, word(op_shift_left_logical, a.high, left), crossing);
    const Id dropped = test(op_i_not_equal, word(op_shift_left_logical, a.low, left), constant(0));
    const Id sticky = word(op_bitwise_or, top, choose(dropped, constant(1), constant(0)));
    const Id exponent = word(op_i_sub, constant(127 + 32), left);
    const Id scale = value(op_bitcast, type_, {word(op_shift_left_logical, exponent, constant(23))});
    const Id large = value(op_f_mul, type_, {value(op_convert_u_to_f, type_, {sticky}), scale});
    const Id small = value(op_convert_u_to_f, type_, {a.low});
    return value(op_select, type_, {test(op_i_equal, a.high, constant(0)), small, large});
  }
  // |x| = high 2^32 + low: all of it is exact.
  void from_float(Id x, bool is_signed) {
    const Id type = type_at(x);
    const Id size = is_signed ? function(type, glsl_f_abs, x) : x;
    const Id above = function(type, glsl_trunc, value(op_f_mul, type, {size, power(type, -32)}));
    const Id below = value(op_f_sub, type, {size, value(op_f_mul, type, {above, power(type, 32)})});
    const Pair a{value(op_convert_f_to_u, uint_, {below}), value(op_convert_f_to_u, uint_, {above})};
    if (!is_signed) return give(a);
    give(magnitude(a, value(op_f_ord_less_than, bool_, {x, value_of_zero(type)})));
  }

  // ---- building
  Id fresh() { return bound_++; }
  static void put(std::vector<uint32_t>& out, uint16_t op, const std::vector<uint32_t>& operands) {
    out.push_back(static_cast<uint32_t>(operands.size() + 1) << 16 | op);
    out.insert(out.end(), operands.begin(), operands.end());
  }
  Id value(uint16_t op, Id type, std::initializer_list<Id> operands) {
    const Id id = fresh();
    std::vector<uint32_t> words{type, id};
    words.insert(words.end(), operands);
    put(code_, op, words);
    return id;
  }
  Id word(uint16_t op, Id a, Id b) { return value(op, uint_, {a, b}); }
  Id test(uint16_t op, Id a, Id b) { return value(op, bool_, {a, b}); }
  Id choose(Id condition, Id yes, Id no) { return value(op_select, uint_, {condition, yes, no}); }
  Id part(Id x, uint32_t which) { return value(op_composite_extract, uint_, {x, which}); }
  Pair split(Id x) { return {part(x, 0), part(x, 1)}; }
  Id function(Id type, uint32_t which, Id x) {
    if (glsl_ == 0) fail("does not import GLSL.std.450");
    return value(op_ext_inst, type, {glsl_, which, x});
  }
  // The result of the instruction that is being lowered.
  void give(Pair a) { put(code_, op_composite_construct, {type_, result_, a.low, a.high}); }
  void give(uint16_t op, Id a, Id b) { put(code_, op, {type_, result_, a, b}); }
  Id amount(Id x) { return is_wide(x) ? part(x, 0) : type_at(x) == uint_ ? x : value(op_bitcast, uint_, {x}); }

  Id constant(uint32_t v) { return literal(uint_, {v}); }
  Id value_of_zero(Id type) { return doubles_.count(type) != 0 ? literal(type, {0, 0}) : literal(type, {0}); }
  Id power(Id type, int exponent) {
    const auto bits = static_cast<uint32_t>(exponent);
    return doubles_.count(type) != 0 ? literal(type, {0, (1023 + bits) << 20}) : literal(type, {(127 + bits) << 23});
  }
  Id literal(Id type, std::vector<uint32_t> bits) {
    const auto [known, is_new] = literals_.emplace(std::pair(type, bits), 0);
    if (is_new) {
      known->second = fresh();
      bits.insert(bits.begin(), {type, known->second});
      put(front_, op_constant, bits);
    }
    return known->second;
  }

  bool is_wide(Id id) const { return wide_.count(id) != 0; }
  Id renamed(Id type) const {
    const auto found = renamed_.find(type);
    return found == renamed_.end() ? type : found->second;
  }
  Id type_at(Id x) const {
    const auto found = type_of_.find(x);
    return found == type_of_.end() ? 0 : renamed(found->second);
  }
  [[noreturn]] void refuse(uint16_t op) const {
    const bool division = op >= 134 && op <= 139;
    fail(division ? "divides 64-bit integers by / or %, for which this device has no instruction; write IDIV or IMOD"
                  : fmt::format("has an instruction on 64-bit integers (SPIR-V {}) that this device lacks", op));
  }

  const std::string& name_;
  const std::vector<uint32_t>& header_;
  uint32_t bound_ = 0;
  std::vector<Instruction> all_;
  std::vector<uint32_t> head_, front_, globals_, code_;

  Id glsl_ = 0, uint_ = 0, int_ = 0, bool_ = 0, pair_ = 0, bools_ = 0, extended_ = 0;
  std::set<Id> types_, wide_types_, floats_, doubles_, hoisted_;
  std::set<Id> wide_;  // values that are 64-bit integers
  std::map<Id, Id> type_of_, renamed_;
  std::map<std::vector<uint32_t>, Id> functions_;
  std::map<std::pair<Id, std::vector<uint32_t>>, Id> literals_;
  Id type_ = 0, result_ = 0;  // of the instruction that is being lowered
};

}  // namespace

std::vector<uint32_t> int64_by_words(const std::vector<uint32_t>& words, const std::string& name) {
  return Lowering(words, name).run();
}

}  // namespace heddle
