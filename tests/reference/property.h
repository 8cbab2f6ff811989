// Properties of functions: what every stored case must satisfy besides PyTorch's values.
//
// Purpose: a property takes a case (a function's name, inputs, arguments) and says whether it holds; check_property()
// runs it on all cases of a function. So a new stored case has every property without an edit. Exemptions
// (property_exemptions.cpp) name function, property and reason; cases that an exemption names must fail or refuse, else
// the exemption is no longer needed and the test says so. Invariants: subjects live on reference:0 in double precision
// unless another dtype is asked for; directions depend on the case alone. Thread safety: none needed; tests run one by
// one.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "heddle/core/device/context.h"
#include "tests/reference/functions.h"
#include "tests/reference/stored_cases.h"

namespace heddle::tests {

using List = std::vector<Tensor>;

// A stored case as tensors that a property can change and call.
class Subject {
 public:
  explicit Subject(const StoredCase& stored, DType floats = DType::f64, const std::string& device = "reference:0");

  const StoredCase& stored;
  DType floats;
  DeviceContext& device;
  List inputs;  // floating ones as `floats`, others as stored

  List call(Inputs in) const { return functions().at(stored.op)(in, args_); }
  bool smooth() const { return !stored.gradients.empty(); }
  // The inputs that have a stored gradient, and the floating results as functions of them.
  List variables() const;
  List smooth_outputs(const List& variables) const;
  // What call() gives for `in`, followed by the gradients of sum(results * fixed directions) by the variables.
  List outputs_and_gradients(const List& in) const;

 private:
  List with_variables(List in, const List& variables) const;
  Arguments args_;
};

// Fixed numbers in (-1, 1), none of them 0: one for each element of `like`, in its dtype. Odd multiples of 1/128, so
// that every float type holds them.
Tensor direction(const Tensor& like, uint32_t seed);
List directions(const List& like, uint32_t seed);
// sum over all of a * b, as a tensor and as a number.
Tensor inner(const List& a, const List& b);

// Empty: it holds. No value: it says nothing about this case. Else what is wrong. Exceptions count as wrong.
using Verdict = std::optional<std::string>;
using Property = std::function<Verdict(const StoredCase& stored)>;
inline const Verdict not_applicable;

// Empty when the lists agree: shapes, dtypes and values up to relative * (1 + largest value of the tensor).
std::string list_difference(const List& found, const List& expected, double relative);

// Runs a property on cases of one function, or on all stored ones. `every_exemption`: each exemption must be needed
// here.
void check_cases(const char* name, std::span<const StoredCase> cases, const Property& property,
                 bool every_exemption = true);
void check_property(const char* name, const Property& property, const std::string& function);

bool all_finite(const List& tensors);

struct Exemption {
  std::string_view function, property;
  std::string_view part;  // of the case's name; empty for all cases
  std::string_view reason;
};
std::span<const Exemption> exemptions();
const Exemption* exemption_of(std::string_view property, const StoredCase& c);

std::vector<std::string> stored_functions();

// One test of each function: PROPERTY/Name.Holds/function.
#define HEDDLE_PROPERTY(Name, property)                                             \
  class Name : public ::testing::TestWithParam<std::string> {};                     \
  TEST_P(Name, Holds) { check_property(#Name, property, GetParam()); }              \
  INSTANTIATE_TEST_SUITE_P(Property, Name, ::testing::ValuesIn(stored_functions()), \
                           [](const ::testing::TestParamInfo<std::string>& each) { return each.param; })

}  // namespace heddle::tests
