// Expressions: what a row without an op of its own is in ONNX's ops, as text.
//
//   "Mul(x, Sigmoid(x))"      "u = Exp(x); Where(Equal(u, 1), x, Sub(u, 1))"      "Gelu(x, approximate='tanh')"
//
// Purpose: one text is the body of a function of the file, or nodes in the place of a call. Names of parameters are
// the row's (x, y, z). A number is a constant of the first parameter's type; #3 is a whole one (int64), [0, 1] a list
// of them. Errors: Error for a text that is no expression (a fault of the table). Thread safety: pure functions.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "heddle/onnx/model_file.h"
#include "heddle/onnx/op.h"

namespace heddle::onnx {

struct Operand {
  std::variant<std::string, double, int64_t, std::vector<int64_t>> value;  // a name, or a constant
};

struct Step {
  std::string op, result;
  std::vector<Operand> operands;
  std::map<std::string, Attribute> attributes;
};

// In order; the last one is the value.
std::vector<Step> parse_expression(std::string_view text);

// Whether it is one op over the parameters, without constants.
bool is_one_op(const std::vector<Step>& steps);

// As the body of a function. Constants are made to have the first parameter's type.
Function as_function(const std::string& name, const std::vector<std::string>& parameters,
                     const std::vector<Step>& steps, int opset);

}  // namespace heddle::onnx
