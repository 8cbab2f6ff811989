// The one table of op cases: what `heddle doctor` and the tests of conformance and gradients run.
//
// Purpose: a case is inputs (shape, dtype, range of values, layout) and a function from tensors to a tensor.
// Elementwise rows get their cases from all_ops(), so a new row is tested without an edit here; every other function of
// core/functions/functions.h is listed in op_cases_*.cpp. Invariants: values depend only on the case, the
// input's number and the seed, so that every device gets the same bytes; names are unique. Thread safety: pure but for
// memory.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "heddle/core/device/context.h"
#include "heddle/core/functions/functions.h"

namespace heddle::checks {

// How an input lies in memory when the op sees it: the leaf is larger or turned, and a movement op makes the shape of
// the case from it.
enum class Layout : uint8_t { dense, offset, strided, flipped, transposed, expanded };

struct InputSpec {
  Shape shape;
  DType dtype = DType::f32;
  double low = -4, high = 4;  // values are uniform in [low, high]; integers are whole
  Layout layout = Layout::dense;
  bool specials = false;  // NaN, infinities, zeros, huge and tiny values among them (floats)
};

using Builder = std::function<Tensor(DeviceContext& device, std::span<const Tensor> inputs)>;

struct OpCase {
  std::string op;    // the row or the function
  std::string name;  // "add f32 (33, 7) (7) strided", unique
  std::vector<InputSpec> inputs;
  Builder build;
  bool differentiable = true;  // smooth at these inputs, in every floating input
  bool wide_integers = false;  // i64 inside or in the result
  bool extra = false;          // only in the full coverage

  // From the leaves of make_inputs: applies the layouts, then the function. Differentiable down to the leaves.
  Tensor run(DeviceContext& device, std::span<const Tensor> leaves) const;
};

// brief: every row and function, every dtype, layout and broadcast form, but not each with each (for elementwise rows
// the forms rotate through the table). full: each with each.
enum class Coverage : uint8_t { brief, full };
std::vector<OpCase> op_cases(Coverage coverage = Coverage::brief);

// The public function of an elementwise row.
Tensor apply_row(const OpDef& row, std::span<const Tensor> inputs);

// The leaves of a case on a device. With `floats`, every floating input has that dtype instead of its own (gradient
// checks use f64).
std::vector<Tensor> make_inputs(const OpCase& c, DeviceContext& device, uint64_t seed,
                                std::optional<DType> floats = {});

// Whether a device has what the case needs, and what is missing ("no f64") if not.
std::string unsupported_reason(const OpCase& c, const Caps& caps);

// |value - reference| <= absolute + relative * |reference|. Two NaNs agree, and equal infinities.
struct Tolerance {
  double relative = 0;
  double absolute = 0;
};
// The published tolerances across devices, by op and by dtype of the result (docs/numbers.md says where they come
// from).
Tolerance tolerance(std::string_view op, DType dtype);

// Empty when all elements agree, else the first that does not with both values and how many there are.
std::string difference(std::span<const double> value, std::span<const double> reference, const Tolerance& tolerance);

// The list of op_cases_functions.cpp and op_cases_networks.cpp.
void add_function_cases(std::vector<OpCase>& cases);
// And of op_cases_linalg.cpp.
void add_linalg_cases(std::vector<OpCase>& cases);

}  // namespace heddle::checks
