#include "heddle/onnx/export/expression.h"

#include <fmt/format.h>

#include <cctype>
#include <cstdlib>
#include <limits>
#include <memory>
#include <utility>

#include "heddle/core/base/error.h"

namespace heddle::onnx {
namespace {

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  std::vector<Step> steps() {
    while (true) {
      const size_t before = at_;
      const std::string name = word();
      const bool named = !name.empty() && next('=');
      if (!named) at_ = before;
      call(named ? name : "");
      skip();
      if (at_ == text_.size()) return std::move(steps_);
      expect(';');
    }
  }

 private:
  [[noreturn]] void fail(const char* what) const {
    throw Error(fmt::format("[export] expression '{}': {} at character {}", text_, what, at_));
  }
  void skip() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  char peek() {
    skip();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool next(char c) {
    if (peek() != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!next(c)) fail("something else is needed");
  }
  std::string word() {
    skip();
    const size_t from = at_;
    const auto fits = [&](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; };
    while (at_ < text_.size() && fits(text_[at_])) ++at_;
    return std::string(text_.substr(from, at_ - from));
  }
  double number() {
    skip();
    if (text_.substr(at_, 4) == "-inf") return at_ += 4, -std::numeric_limits<double>::infinity();
    const std::string rest(text_.substr(at_));
    char* end = nullptr;
    const double value = std::strtod(rest.c_str(), &end);
    if (end == rest.c_str()) fail("a number is needed");
    at_ += static_cast<size_t>(end - rest.c_str());
    return value;
  }
  std::vector<int64_t> list() {
    std::vector<int64_t> values;
    expect('[');
    while (!next(']')) {
      values.push_back(static_cast<int64_t>(number()));
      next(',');
    }
    return values;
  }
  static bool begins_number(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0 || c == '-'; }

  std::string call(std::string result) {
    Step step;
    step.op = word();
    if (step.op.empty()) fail("an op is needed");
    expect('(');
    while (!next(')')) {
      argument(step);
      next(',');
    }
    step.result = result.empty() ? fmt::format("v{}", steps_.size()) : std::move(result);
    steps_.push_back(step);
    return step.result;
  }
  void argument(Step& step) {
    const char first = peek();
    if (first == '[') return step.operands.push_back({list()});
    if (first == '#') return ++at_, step.operands.push_back({static_cast<int64_t>(number())});
    if (begins_number(first)) return step.operands.push_back({number()});
    const size_t before = at_;
    const std::string name = word();
    if (name.empty()) fail("an argument is needed");
    if (next('=')) return attribute(step, name);
    if (peek() != '(') return step.operands.push_back({name});
    at_ = before;
    step.operands.push_back({call("")});
  }
  void attribute(Step& step, const std::string& name) {
    Attribute& made = step.attributes[name];
    if (peek() == '[') {
      made.value = list();
    } else if (next('\'')) {
      made.value = word();
      expect('\'');
    } else {
      made.value = static_cast<int64_t>(number());
    }
  }

  std::string_view text_;
  size_t at_ = 0;
  std::vector<Step> steps_;
};

// Writes constants as nodes.
class Body {
 public:
  Body(Graph& graph, std::string like) : graph_(graph), like_(std::move(like)) {}

  std::string operand(const Operand& operand) {
    if (const auto* name = std::get_if<std::string>(&operand.value)) return *name;
    if (const auto* number = std::get_if<double>(&operand.value)) {
      const std::string wide = constant(HostTensor::of_reals(Type::f64, Shape{}, {*number}));
      return add("CastLike", {wide, like_}, {});
    }
    if (const auto* whole = std::get_if<int64_t>(&operand.value))
      return constant(HostTensor::of_ints(Type::i64, Shape{}, {*whole}));
    const auto& list = std::get<std::vector<int64_t>>(operand.value);
    return constant(HostTensor::of_ints(Type::i64, Shape{static_cast<int64_t>(list.size())}, list));
  }
  std::string add(const std::string& op, std::vector<std::string> inputs, std::map<std::string, Attribute> attributes,
                  std::string result = "") {
    if (result.empty()) result = fmt::format("c{}", count_++);
    graph_.nodes.push_back({"", op, "", std::move(inputs), {result}, std::move(attributes), op});
    return result;
  }

 private:
  std::string constant(HostTensor value) { return add("Constant", {}, {{"value", {std::move(value)}}}); }
  Graph& graph_;
  std::string like_;
  int count_ = 0;
};

}  // namespace

std::vector<Step> parse_expression(std::string_view text) { return Parser(text).steps(); }

bool is_one_op(const std::vector<Step>& steps) {
  if (steps.size() != 1) return false;
  for (const Operand& operand : steps[0].operands) {
    if (!std::holds_alternative<std::string>(operand.value)) return false;
  }
  return true;
}

Function as_function(const std::string& name, const std::vector<std::string>& parameters,
                     const std::vector<Step>& steps, int opset) {
  Function made;
  made.name = name;
  made.domain = own_domain;
  made.inputs = parameters;
  made.outputs = {steps.back().result};
  made.opsets = {{"", opset}};
  Body body(made.body, parameters.at(0));
  for (const Step& step : steps) {
    std::vector<std::string> inputs;
    for (const Operand& operand : step.operands) inputs.push_back(body.operand(operand));
    body.add(step.op, std::move(inputs), step.attributes, step.result);
  }
  return made;
}

}  // namespace heddle::onnx
