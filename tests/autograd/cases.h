// The differentiable functions as a table: one entry per function and form.
//
// Purpose: drives the gradient check (finite differences in f64 on the reference device) and the comparison of devices.
//
// Invariants: inputs are floating and drawn from [low, high) by seed; a function makes its indices on the device of its
// input and draws random numbers from a generator of its own, so that it is the same function each time.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "heddle/core/device/context.h"
#include "heddle/core/functions/functions.h"
#include "heddle/core/graph/tensor.h"

namespace heddle::tests {

using Inputs = std::span<const Tensor>;

struct GradientCase {
  std::string name;
  std::vector<Shape> shapes;
  std::function<Tensor(Inputs)> f;
  double low = -1.5;
  double high = 1.5;
  double first_offset = 0;  // added to the first input
};

// Of a function of one tensor, and of two.
inline GradientCase one(std::string name, Shape shape, std::function<Tensor(const Tensor&)> f, double low = -1.5,
                        double high = 1.5) {
  return {std::move(name), {shape}, [f = std::move(f)](Inputs in) { return f(in[0]); }, low, high};
}

inline GradientCase two(std::string name, Shape a, Shape b, std::function<Tensor(const Tensor&, const Tensor&)> f,
                        double low = -1.5, double high = 1.5) {
  return {std::move(name), {a, b}, [f = std::move(f)](Inputs in) { return f(in[0], in[1]); }, low, high};
}

// Every elementwise row that has a rule, found in the table by itself.
std::vector<GradientCase> elementwise_cases();
// The functions of core/functions/functions.h that are not rows.
std::vector<GradientCase> function_cases();
// Those, and the rows, without the loops: what every transform takes.
std::vector<GradientCase> transform_cases(bool rows = true);
// Attention, which is a part of those.
std::vector<GradientCase> attention_cases();
// Linear algebra, which is too.
std::vector<GradientCase> linalg_cases();
// Loops and branches, which are too.
std::vector<GradientCase> control_cases();

// Random leaves for a case that collect gradients.
std::vector<Tensor> make_inputs(const GradientCase& c, DType dtype, DeviceContext& device);

}  // namespace heddle::tests
