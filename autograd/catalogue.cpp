#include "heddle/autograd/catalogue.h"

#include <algorithm>
#include <array>
#include <unordered_map>

#include "heddle/autograd/rules.h"
#include "heddle/core/base/similar.h"

namespace heddle {
namespace {

struct Column {
  std::string_view name, description;
};
// In the order of TypeRule.
constexpr std::array<Column, 15> type_columns{{
    {"any", "all"},
    {"numeric", "all; bool as i32"},
    {"additive", "all but bool"},
    {"whole", "integers; bool as i32"},
    {"bits", "integers and bool"},
    {"floating", "floats; others as f32"},
    {"floats", "floats"},
    {"widened", "all; gives f32, or f64 for f64"},
    {"total", "all; integers and bool give i64"},
    {"truth", "all; gives bool"},
    {"index", "all; gives i64"},
    {"counts", "integers and bool; gives i64, or the type of weights"},
    {"asked", "all; gives the dtype that is asked for"},
    {"f32", "gives f32"},
    {"i64", "gives i64"},
}};

// Rows that core/functions/math/elementwise.cpp takes further than their dtype rule.
TypeRule rule_of(std::string_view name, DTypeRule rule) {
  const auto among = [&](std::initializer_list<std::string_view> names) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  if (among({"add", "mul", "minimum", "maximum", "abs", "floor", "ceil", "round", "trunc"})) return TypeRule::any;
  if (among({"sub", "neg"})) return TypeRule::additive;
  if (name == "pow") return TypeRule::numeric;
  if (name.starts_with("bitwise_")) return TypeRule::bits;
  switch (rule) {
    case DTypeRule::floating:
      return TypeRule::floating;
    case DTypeRule::numeric:
      return TypeRule::numeric;
    case DTypeRule::whole:
      return TypeRule::whole;
    case DTypeRule::compare:
    case DTypeRule::logical:
    case DTypeRule::test:
      return TypeRule::truth;
    case DTypeRule::any:
      break;
  }
  return TypeRule::any;
}

std::vector<std::string_view> words(std::string_view text) {
  std::vector<std::string_view> result;
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    result.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return result;
}

// Rows whose gradient is a tensor of zeros.
bool is_flat(std::string_view name) {
  constexpr std::string_view flat[] = {"sign", "floor", "ceil", "round", "trunc"};
  return std::find(std::begin(flat), std::end(flat), name) != std::end(flat);
}

class Builder {
 public:
  Builder() {
#define HEDDLE_FAMILY(title) family_ = title;
#define HEDDLE_ELEMENTWISE(name) elementwise(#name);
#define HEDDLE_ROW(name, types, inputs) of_row(#name, #name, TypeRule::types, inputs, op(#name).doc);
#define HEDDLE_FUNCTION(name, types, inputs, meaning) add(#name, TypeRule::types, inputs, meaning);
#define HEDDLE_RECORDS(row, name, types, inputs, meaning) of_row(#row, #name, TypeRule::types, inputs, meaning);
#define HEDDLE_FLAT(name, types, inputs, meaning) \
  add(#name, TypeRule::types, inputs, meaning).derivative = Derivative::zero;
#define HEDDLE_NO_GRADIENT(name, types, why, meaning) no_gradient(add(#name, TypeRule::types, "", meaning), why);
#define HEDDLE_NO_VMAP(name, why) at(#name).no_vmap = why;
#define HEDDLE_NO_JVP(name, why) at(#name).no_jvp = why;
#define HEDDLE_AUTOCAST(policy, names) \
  for (const std::string_view name : words(names)) at(name).autocast = Autocast::policy;
#include "heddle/autograd/catalogue.inc"
  }

  std::vector<PublicFunction> take() { return std::move(functions_); }

 private:
  PublicFunction& add(std::string_view name, TypeRule types, std::string_view inputs, std::string_view meaning) {
    PublicFunction& f = functions_.emplace_back();
    f.name = name;
    f.family = family_;
    f.meaning = meaning;
    f.types = types;
    f.inputs = words(inputs);
    return f;
  }

  static void no_gradient(PublicFunction& f, std::string_view why) {
    f.derivative = Derivative::none;
    f.why = why;
  }

  PublicFunction& of_row(std::string_view row, std::string_view name, TypeRule types, std::string_view inputs,
                         std::string_view meaning) {
    PublicFunction& f = add(name, types, inputs, meaning);
    f.row = &op(row);
    f.autocast = f.row->autocast;
    f.made = f.row->decompose != nullptr ? Made::fused : Made::row;
    return f;
  }

  void elementwise(std::string_view name) {
    const OpDef& row = op(name);
    PublicFunction& f = of_row(name, name, rule_of(name, row.rule), row.arity == 1 ? "x" : "x y", row.doc);
    const autograd::GradientRow* gradient = autograd::find_gradient(row);
    if (gradient == nullptr || gradient->rule == nullptr) {
      f.inputs.clear();
      no_gradient(f, gradient == nullptr ? "no rule" : gradient->reason);
    } else if (is_flat(name)) {
      f.derivative = Derivative::zero;
    }
  }

  PublicFunction& at(std::string_view name) {
    return *std::find_if(functions_.begin(), functions_.end(), [&](const PublicFunction& f) { return f.name == name; });
  }

  std::string_view family_;
  std::vector<PublicFunction> functions_;
};

const std::vector<PublicFunction>& all() {
  static const std::vector<PublicFunction> functions = Builder().take();
  return functions;
}

}  // namespace

std::string_view name_of(TypeRule rule) { return type_columns[static_cast<size_t>(rule)].name; }
std::string_view describe(TypeRule rule) { return type_columns[static_cast<size_t>(rule)].description; }

std::string_view name_of(Made made) {
  switch (made) {
    case Made::row:
      return "row";
    case Made::fused:
      return "fused";
    case Made::composed:
      return "composed";
  }
  return "?";
}

std::optional<DType> result_type(TypeRule rule, DType t) {
  const bool floats = is_float(t), boolean = t == DType::boolean;
  const auto some = [](bool taken, DType result) { return taken ? std::optional(result) : std::nullopt; };
  switch (rule) {
    case TypeRule::any:
      return t;
    case TypeRule::numeric:
      return boolean ? DType::i32 : t;
    case TypeRule::additive:
      return some(!boolean, t);
    case TypeRule::whole:
      return some(!floats, boolean ? DType::i32 : t);
    case TypeRule::bits:
      return some(!floats, t);
    case TypeRule::floating:
      return floats ? t : DType::f32;
    case TypeRule::floats:
      return some(floats, t);
    case TypeRule::widened:
      return t == DType::f64 ? t : DType::f32;
    case TypeRule::total:
      return floats ? t : DType::i64;
    case TypeRule::truth:
      return DType::boolean;
    case TypeRule::index:
      return DType::i64;
    case TypeRule::counts:
    case TypeRule::asked:
    case TypeRule::f32:
    case TypeRule::i64:
      break;
  }
  return std::nullopt;
}

std::vector<DType> types_of(TypeRule rule) {
  std::vector<DType> result;
  if (rule == TypeRule::f32 || rule == TypeRule::i64) return result;
  for (int i = 0; i < dtype_count; ++i) {
    const DType t = static_cast<DType>(i);
    const bool taken =
        rule == TypeRule::asked || (rule == TypeRule::counts ? !is_float(t) : result_type(rule, t).has_value());
    if (taken) result.push_back(t);
  }
  return result;
}

std::span<const PublicFunction> catalogue() { return all(); }

const PublicFunction* find_function(std::string_view name) {
  static const auto index = [] {
    std::unordered_map<std::string_view, const PublicFunction*> result;
    for (const PublicFunction& f : all()) result.emplace(f.name, &f);
    return result;
  }();
  const auto found = index.find(name);
  return found == index.end() ? nullptr : found->second;
}

std::vector<std::string_view> similar_functions(std::string_view name) {
  std::vector<std::string_view> known;
  for (const PublicFunction& f : all()) known.push_back(f.name);
  return similar_names(name, known);
}

}  // namespace heddle
