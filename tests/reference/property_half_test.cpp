// f16 and bf16: values and gradients against double precision at the same (rounded) inputs, with every value on the way
// rounded to its dtype.
//
// The tolerance comes from the dtype alone: a few units in the last place of the largest result, and as much as the
// exact result moves when the inputs do by one unit. So functions that cancel are judged by how they cancel; an
// overflow on the way, a constant in the wrong dtype or a sum in 16 bits is not excused.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "heddle/core/device/context.h"
#include "heddle/core/reference/reference.h"
#include "tests/reference/property.h"

namespace heddle::tests {
namespace {

using Values = std::vector<std::vector<double>>;

Values values_of(const List& tensors) {
  Values all;
  for (const Tensor& t : tensors) all.push_back(t.to_doubles());
  return all;
}

// As if written to a tensor of that dtype.
double stored_as(double value, DType dtype) {
  return is_float(dtype)
             ? cast(Tensor::from_vector(std::vector<double>{value}, Shape{}, &device("reference:0")), dtype).item()
             : value;
}

// What the stored case in half precision says; the dtype of the inputs where there is none.
DType expected_dtype(const StoredCase& stored, size_t output, DType half) {
  for (const StoredCase& other : stored_cases().at(stored.op)) {
    const bool narrow = std::find(other.in.begin(), other.in.end(), DType::f16) != other.in.end();
    if (narrow && output < other.out.size() && other.out[output] == "f32") return DType::f32;
  }
  return half;
}

std::string check(const StoredCase& stored, DType half) {
  constexpr double units = 8;
  const double unit = half == DType::f16 ? 0x1p-10 : 0x1p-7;
  const Subject narrow(stored, half), wide(stored);
  List in;
  for (size_t k = 0; k < wide.inputs.size(); ++k)
    in.push_back(is_float(stored.in[k]) ? stop_gradient(cast(narrow.inputs[k], DType::f64)) : wide.inputs[k]);
  const List found = [&] {
    const RoundingScope rounding;
    List all = narrow.outputs_and_gradients(narrow.inputs);
    eval(all);
    return all;
  }();
  const List exact = wide.outputs_and_gradients(in);
  const Values expected = values_of(exact), values = values_of(found);
  if (values.size() != expected.size()) return fmt::format("{} tensors instead of {}", values.size(), expected.size());
  std::vector<double> noise(expected.size(), 0.0);
  for (uint32_t sample = 0; sample < 3; ++sample) {
    List moved;
    for (size_t k = 0; k < in.size(); ++k)
      moved.push_back(is_float(stored.in[k]) ? in[k] * (1 + unit * sign(direction(in[k], 70 + sample))) : in[k]);
    const Values near = values_of(wide.outputs_and_gradients(moved));
    for (size_t k = 0; k < near.size(); ++k) {
      for (size_t i = 0; i < near[k].size() && near[k].size() == expected[k].size(); ++i) {
        const double change = std::abs(near[k][i] - expected[k][i]);
        if (std::isfinite(change)) noise[k] = std::max(noise[k], change);
      }
    }
  }
  for (size_t k = 0; k < values.size(); ++k) {
    if (found[k].shape() != exact[k].shape())
      return fmt::format("tensor {} is {} instead of {}", k, found[k].shape().str(), exact[k].shape().str());
    const DType dtype = expected_dtype(stored, k, half);
    if (is_float(exact[k].dtype()) && found[k].dtype() != dtype)
      return fmt::format("tensor {} is {} instead of {}", k, name_of(found[k].dtype()), name_of(dtype));
    double largest = 0;
    for (const double v : expected[k]) largest = std::isfinite(v) ? std::max(largest, std::abs(v)) : largest;
    const double allowed = units * (unit * largest + noise[k]) + 0x1p-20;
    for (size_t i = 0; i < values[k].size(); ++i) {
      const double a = values[k][i], b = expected[k][i];
      const bool same = a == b || (std::isnan(a) && std::isnan(b)) || std::abs(a - b) <= allowed ||
                        a == stored_as(b, found[k].dtype());
      if (!same)
        return fmt::format("{} tensor {} element {}: {:.6g} instead of {:.6g}, allowed {:.2g}", name_of(half), k, i, a,
                           b, allowed);
    }
  }
  return "";
}

Verdict half_precision(const StoredCase& stored) {
  if (stored.kind == "extreme" || stored.kind == "nan" || stored.kind == "infinite") return not_applicable;
  if (std::none_of(stored.in.begin(), stored.in.end(), [](DType t) { return is_float(t); })) return not_applicable;
  for (const DType half : {DType::f16, DType::bf16}) {
    if (std::string wrong = check(stored, half); !wrong.empty()) return wrong;
  }
  return "";
}

HEDDLE_PROPERTY(HalfPrecision, half_precision);

}  // namespace
}  // namespace heddle::tests
