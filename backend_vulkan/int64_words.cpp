#include "heddle/backend_vulkan/int64_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "heddle/backend_vulkan/int64_steps.h"
#include "heddle/core/contract/spirv.h"

namespace heddle {
namespace {

using namespace spirv;

constexpr uint32_t capability_int64 = 11, decoration_no_contraction = 42;

// What stays as it is when its types change: copies, memory, composites, control flow, and bit operations, which
// vectors have too.
bool passes(uint16_t op) {
  constexpr uint16_t same[] = {1,  8,  44, 46, 54,  55,  56,  57,  59,  61,  62,  63,  65,  66,  79, 80,
                               81, 82, 83, 77, 197, 198, 199, 200, 224, 225, 245, 246, 247, 248, 317};
  return std::find(std::begin(same), std::end(same), op) != std::end(same) || (op >= 249 && op <= 255);
}

using Words = std::vector<uint32_t>;

class Lowering : private Int64Steps {
 public:
  Lowering(const Words& module, const std::string& name)
      : Int64Steps(name, module.size() < spirv_head ? 0 : module[3]), module_(module) {
    if (module.size() < spirv_head) fail("is no SPIR-V");
    std::optional<std::vector<SpirvInstruction>> all = spirv_instructions(module);
    if (!all) fail("is damaged SPIR-V");
    all_ = std::move(*all);
  }

  Words run() {
    scan();
    if (wide_types_.empty()) return module_;
    make_types();
    size_t at = 0;
    for (; at < all_.size() && !is_type(all_[at].op); ++at) annotation(all_[at]);
    for (; at < all_.size() && all_[at].op != op_function; ++at) global(all_[at]);
    for (; at < all_.size(); ++at) instruction(all_[at]);
    Words out(module_.begin(), module_.begin() + spirv_head);
    out[3] = bound();
    for (const auto* part : {&head_, &front, &globals_, &code}) out.insert(out.end(), part->begin(), part->end());
    return out;
  }

 private:
  static bool is_type(uint16_t op) { return op >= op_type_first && op <= op_type_last; }
  static Words operands_of(const SpirvInstruction& i) { return {i.operands.begin(), i.operands.end()}; }

  // ---- what there is
  void scan() {
    for (const SpirvInstruction& i : all_) {
      const auto& w = i.operands;
      if (i.op == op_ext_inst_import) {
        if (std::string_view(reinterpret_cast<const char*>(&w[1])) == "GLSL.std.450") names.glsl = w[0];
      } else if (is_type(i.op)) {
        scan_type(i);
      } else if (i.op != op_decorate && typed(w)) {
        type_of_[w[1]] = w[0];
        if (wide_types_.count(w[0]) != 0) wide_.insert(w[1]);
      }
    }
  }

  void scan_type(const SpirvInstruction& i) {
    const auto& w = i.operands;
    types_.insert(w[0]);
    if (i.op == op_type_int && w[1] == 64) wide_types_.insert(w[0]);
    if (i.op == op_type_int && w[1] == 32) (w[2] == 0 ? names.uint32 : names.int32) = w[0];
    if (i.op == op_type_bool) names.boolean = w[0];
    if (i.op == op_type_float) (w[1] == 64 ? names.doubles : floats_).insert(w[0]);
    if (i.op == op_type_vector && w[1] == names.uint32 && w[2] == 2) names.pair = w[0];
    if (i.op == op_type_vector && w[1] == names.boolean && w[2] == 2) names.booleans = w[0];
    if (i.op == op_type_vector && wide_types_.count(w[1]) != 0) fail("has a vector of 64-bit integers");
  }

  // ---- the types and constants that all else rests on come first
  void make_types() {
    const auto make = [&](Id& id, uint16_t op, std::initializer_list<uint32_t> operands) {
      if (id == 0) id = fresh();
      hoist(id, op, operands);
    };
    make(names.uint32, op_type_int, {32, 0});
    make(names.boolean, op_type_bool, {});
    for (const Id f : floats_) hoist(f, op_type_float, {32});
    for (const Id f : names.doubles) hoist(f, op_type_float, {64});
    make(names.pair, op_type_vector, {names.uint32, 2});
    make(names.booleans, op_type_vector, {names.boolean, 2});
    names.extended = fresh();
    put(front, op_type_struct, {names.extended, names.uint32, names.uint32});
    for (const Id t : wide_types_) renamed_[t] = names.pair;
  }
  void hoist(Id id, uint16_t op, std::initializer_list<uint32_t> operands) {
    hoisted_.insert(id);
    Words words{id};
    words.insert(words.end(), operands);
    put(front, op, words);
  }

  void annotation(const SpirvInstruction& i) {
    if (i.op == op_capability && i.operands[0] == capability_int64) return;
    // An instruction of integers does not contract, and what takes its place may not carry that word.
    if (i.op == op_decorate && i.operands[1] == decoration_no_contraction && is_wide(i.operands[0])) return;
    put(head_, i.op, operands_of(i));
  }

  void global(const SpirvInstruction& i) {
    Words w = operands_of(i);
    if (is_type(i.op)) {
      if (hoisted_.count(w[0]) != 0 || wide_types_.count(w[0]) != 0) return;
      rename_parts(i.op, w);
      // Function types, unlike pointers and structures, are one when they are equal.
      if (i.op == op_type_function) {
        const auto [known, fresh_one] = functions_.emplace(Words(w.begin() + 1, w.end()), w[0]);
        if (!fresh_one) {
          renamed_[w[0]] = known->second;
          return;
        }
      }
      return put(globals_, i.op, w);
    }
    if (i.op == op_constant && is_wide(w[1]))
      return put(globals_, op_constant_composite, {names.pair, w[1], constant(w[2]), constant(w[3])});
    if (typed(w) && wide_types_.count(w[0]) != 0 && !passes(i.op)) refuse(i.op);
    if (typed(w)) w[0] = renamed(w[0]);
    put(globals_, i.op, w);
  }

  void rename_parts(uint16_t op, Words& w) const {
    if (op == op_type_array || op == op_type_runtime_array) w[1] = renamed(w[1]);
    if (op == op_type_pointer) w[2] = renamed(w[2]);
    if (op == op_type_struct || op == op_type_function) {
      for (size_t k = 1; k < w.size(); ++k) w[k] = renamed(w[k]);
    }
  }

  // ---- code
  void instruction(const SpirvInstruction& i) {
    Words w = operands_of(i);
    const bool has_type = typed(w);
    const bool wide = has_type && is_wide(w[1]);
    bool reads = false;
    for (size_t k = i.op == op_ext_inst ? 4 : has_type ? 2 : 0; k < w.size(); ++k) reads = reads || is_wide(w[k]);
    if (has_type && !passes(i.op) && (wide || reads)) return lower(i.op, w);
    if (reads && !passes(i.op) && !has_type) refuse(i.op);
    if (i.op == op_access_chain || i.op == op_in_bounds_access_chain) {
      for (size_t k = 3; k < w.size(); ++k) {
        if (is_wide(w[k])) fail("indexes by a 64-bit integer");
      }
    }
    if (has_type) w[0] = renamed(w[0]);
    if (i.op == op_function) w[3] = renamed(w[3]);
    put(code, i.op, w);
  }

  void lower(uint16_t op, const Words& w) {
    type_ = renamed(w[0]);
    result_ = w[1];
    switch (op) {
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
        return is_wide(w[1]) ? give(shift(op, split(w[2]), amount(w[3])))
                             : put(code, op, {type_, result_, w[2], amount(w[3])});
      case op_select: {
        const Id both = value(op_composite_construct, names.booleans, {w[2], w[2]});
        return put(code, op_select, {type_, result_, both, w[3], w[4]});
      }
      case op_s_convert:
      case op_u_convert:
        return is_wide(w[1]) ? give(widen(word_to_widen(w[2]), op == op_s_convert)) : narrow(w[2]);
      case op_bitcast:
        return put(code, type_ == names.pair && type_at(w[2]) == names.pair ? op_copy_object : op_bitcast,
                   {type_, result_, w[2]});
      case op_convert_s_to_f:
      case op_convert_u_to_f:
        return convert(split(w[2]), op == op_convert_s_to_f);
      case op_convert_f_to_s:
      case op_convert_f_to_u:
        return give(from_float(w[2], type_at(w[2]), op == op_convert_f_to_s));
      case op_ext_inst:
        if (w[3] == glsl_s_abs) return absolute(split(w[4]));
        return fail(fmt::format("has a function of 64-bit integers (GLSL.std.450 {}) that this device lacks", w[3]));
      default:
        return compare(op, split(w[2]), split(w[3]));
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
    give(op_logical_or, high, value(op_logical_and, names.boolean, {equal, low}));
  }

  void absolute(Pair a) { give(magnitude(a, is_negative(a))); }

  Id word_to_widen(Id x) {
    const Id type = type_at(x);
    if (type != names.uint32 && type != names.int32) fail("widens an integer that has not 32 bits");
    return type == names.uint32 ? x : value(op_bitcast, names.uint32, {x});
  }
  void narrow(Id x) {
    if (type_ != names.uint32 && type_ != names.int32) fail("narrows a 64-bit integer to other than 32 bits");
    put(code, type_ == names.uint32 ? op_copy_object : op_bitcast, {type_, result_, part(x, 0)});
  }
  void convert(Pair a, bool is_signed) {
    const Id negative = is_signed ? is_negative(a) : 0;
    const Id x = to_float(is_signed ? magnitude(a, negative) : a, type_);
    if (!is_signed) return put(code, op_copy_object, {type_, result_, x});
    put(code, op_select, {type_, result_, negative, value(op_f_negate, type_, {x}), x});
  }
  Id amount(Id x) {
    return is_wide(x) ? part(x, 0) : type_at(x) == names.uint32 ? x : value(op_bitcast, names.uint32, {x});
  }

  // The result of the instruction that is being lowered.
  void give(Pair a) { put(code, op_composite_construct, {type_, result_, a.low, a.high}); }
  void give(uint16_t op, Id a, Id b) { put(code, op, {type_, result_, a, b}); }

  // ---- what is known of ids
  template <class List>
  bool typed(const List& w) const {
    return w.size() >= 2 && types_.count(w[0]) != 0;
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

  const Words& module_;
  std::vector<SpirvInstruction> all_;
  Words head_, globals_;
  std::set<Id> types_, wide_types_, floats_, hoisted_;
  std::set<Id> wide_;  // values that are 64-bit integers
  std::map<Id, Id> type_of_, renamed_;
  std::map<Words, Id> functions_;
  Id type_ = 0, result_ = 0;  // of the instruction that is being lowered
};

}  // namespace

std::vector<uint32_t> int64_by_words(const std::vector<uint32_t>& words, const std::string& name) {
  return Lowering(words, name).run();
}

}  // namespace heddle
