#include "heddle/core/lower/reducer.h"

#include <fmt/format.h>

#include <limits>

#include "heddle/core/lower/emit.h"
#include "heddle/core/lower/emit_text.h"
#include "heddle/core/op/primitives.h"

namespace heddle {
namespace {

// The value that loses against every other: where max starts (min: its opposite).
std::string lowest(DType t, bool max) {
  const double sign = max ? -1 : 1;
  switch (arith(t)) {
    case DType::f32:
    case DType::f64:
      return dialect_literal(sign * std::numeric_limits<double>::infinity(), t);
    case DType::i64:
      return max ? dialect_literal(-9223372036854775808.0, t) : "I64(9223372036854775807)";
    case DType::boolean:
      return max ? "0" : "1";
    default:
      return dialect_literal(max ? -2147483648.0 : 2147483647.0, t);
  }
}

}  // namespace

Reducer::Reducer(const IrNode& node, DType input, int id, int ordinal)
    : id_(id),
      dtype_(node.dtype),
      input_(input),
      arg_(node.op == &ops::argmax_op || node.op == &ops::argmin_op),
      op_(node.op->name),
      name_(fmt::format("t_a{}", ordinal)) {
  // bool is reduced as int: shared arrays and accumulators have no bool.
  type_ = input == DType::boolean ? "int" : std::string(dialect_type(input));
  const DType wide = input == DType::boolean ? DType::i32 : input;
  if (op_ == "sum")
    start_ = dialect_literal(0, wide);
  else if (op_ == "prod")
    start_ = dialect_literal(1, wide);
  else
    start_ = lowest(input, op_ == "max" || op_ == "argmax");
}

std::vector<std::string> Reducer::declare(const std::string&) const {
  std::vector<std::string> text{fmt::format("{} {} = {};", type_, name_, start_)};
  if (arg_) text.push_back(fmt::format("int {}_at = -1;", name_));
  return text;
}

std::vector<std::string> Reducer::declare_array(int64_t width, const std::string& word,
                                                const std::string& suffix) const {
  const Slots array = own(suffix);
  const std::string loop = fmt::format("{} for (int t_l = 0; t_l < {}; ++t_l)", word, width);
  std::vector<std::string> text{fmt::format("{} {}[{}];", type_, array.value, width),
                                fmt::format("{} {{ {}[t_l] = {}; }}", loop, array.value, start_)};
  if (arg_) {
    text.push_back(fmt::format("int {}[{}];", array.at, width));
    text.push_back(fmt::format("{} {{ {}[t_l] = -1; }}", loop, array.at));
  }
  return text;
}

std::vector<std::string> Reducer::accumulate(const std::string& lane, const std::string& value,
                                             const std::string& position) const {
  const auto [a, at] = own(lane);
  const std::string v = input_ == DType::boolean ? fmt::format("CAST(int, {})", value) : value;
  if (!arg_) return {fmt::format("{} = {};", a, combine(a, v))};
  return {fmt::format("if ({} < 0 || {}) {{ {} = {}; {} = {}; }}", at, beats(v, a), a, v, at, position)};
}

std::string Reducer::beats(const std::string& v, const std::string& a) const {
  const std::string better = fmt::format("{} {} {}", v, op_ == "argmax" ? ">" : "<", a);
  return is_float(input_) ? fmt::format("{} || (isnan({}) && !isnan({}))", better, v, a) : better;
}

std::string Reducer::assign(const Slots& to, const Slots& from) const {
  const std::string value = fmt::format("{} = {};", to.value, from.value);
  return arg_ ? fmt::format("{} {} = {};", value, to.at, from.at) : value;
}

// Of equals, and of several NaNs, the first stays; -1 is the position of a lane that saw nothing.
std::string Reducer::join(const Slots& a, const Slots& b) const {
  if (!arg_) return fmt::format("{} = {};", a.value, combine(a.value, b.value));
  std::string equal = fmt::format("{} == {}", b.value, a.value);
  if (is_float(input_)) equal += fmt::format(" || (isnan({}) && isnan({}))", b.value, a.value);
  return fmt::format("if ({} >= 0 && ({} < 0 || {} || (({}) && {} < {}))) {{ {} }}", b.at, a.at,
                     beats(b.value, a.value), equal, b.at, a.at, assign(a, b));
}

std::string_view Reducer::group_word() const {
  if (arg_ || !tree()) return "";
  return op_ == "sum" ? "GROUP_SUM" : op_ == "max" ? "GROUP_MAX" : op_ == "min" ? "GROUP_MIN" : "";
}

std::string Reducer::combine(const std::string& a, const std::string& b) const {
  if (op_ == "sum") return fmt::format("{} + {}", a, b);
  if (op_ == "prod") return fmt::format("{} * {}", a, b);
  return fmt::format("{}({}, {})", op_, a, b);
}

std::string Reducer::result(const std::string& lane) const {
  if (arg_) return fmt::format("WIDEN({}_at{})", name_, lane);
  const std::string a = name_ + lane;
  if (dtype_ == DType::boolean) return fmt::format("CAST(bool, {})", a);
  return dtype_ == DType::i8 || dtype_ == DType::u8 ? wrap_narrow(a, dtype_) : a;
}

}  // namespace heddle
