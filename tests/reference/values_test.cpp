// Every function and its gradient on every device against values stored from PyTorch, computed in double precision.
// Inputs lie as views in memory: offset, strided, flipped, transposed.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <tuple>

#include "checks/op_cases.h"
#include "heddle/autograd/autograd.h"
#include "heddle/autograd/catalogue.h"
#include "heddle/core/device/context.h"
#include "tests/reference/functions.h"
#include "tests/reference/property.h"
#include "tests/reference/stored_cases.h"
#include "tests/support/coverage.h"
#include "tests/support/device_test.h"

namespace heddle::tests {
namespace {

using namespace checks;

size_t compared = 0;   // cases times devices, values and gradients
uint64_t on_host = 0;  // operations evaluated on the host for devices with kernels

class Count : public ::testing::Environment {
 public:
  void TearDown() override {
    fmt::print(
        "{} comparisons with PyTorch's stored values; {} operations of devices with kernels evaluated on the host\n",
        compared, on_host);
  }
};
const auto* const count = ::testing::AddGlobalTestEnvironment(new Count);

// A gradient adds up many terms that may cancel: its tolerance is relative to its largest element.
Tolerance gradient_tolerance(DType dtype, const std::vector<double>& expected) {
  double largest = 1e-2;
  for (const double v : expected) largest = std::isfinite(v) ? std::max(largest, std::abs(v)) : largest;
  const double unit = dtype == DType::f16 ? 4e-3 : dtype == DType::bf16 ? 3e-2 : 2e-5;
  return {unit, unit * largest};
}

// Extremes are computed in double precision, so each element counts: what a careless formula loses there is everything.
Tolerance extreme_tolerance(const std::vector<double>& expected) {
  double largest = 100;
  for (const double v : expected) largest = std::isfinite(v) ? std::max(largest, std::abs(v)) : largest;
  return {1e-5, 1e-9 * largest};
}

Tensor put(const StoredTensor& stored, DType dtype, DeviceContext& device) {
  if (is_float(dtype))
    return cast(
        Tensor::from_vector(std::vector<float>(stored.values.begin(), stored.values.end()), stored.shape, &device),
        dtype);
  return cast(
      Tensor::from_vector(std::vector<int32_t>(stored.values.begin(), stored.values.end()), stored.shape, &device),
      dtype);
}

// The same values as a view of something larger or turned: the n-th way of lying in memory.
Tensor put_as_view(const StoredTensor& stored, DType dtype, DeviceContext& device, size_t way) {
  const int rank = stored.shape.rank();
  if (rank == 0 || stored.shape.numel() == 0) return put(stored, dtype, device);
  const Tensor host = Tensor::from_vector(stored.values, stored.shape, &heddle::device("reference:0"));
  std::vector<int> axes(static_cast<size_t>(rank));
  std::iota(axes.rbegin(), axes.rend(), 0);
  const auto upload = [&](const Tensor& turned) {
    const Tensor there = put({turned.shape(), turned.to_doubles()}, dtype, device);
    eval({there});
    return there;
  };
  switch (way % 5) {
    case 1:
      return slice(upload(concat({slice(host, 0, {.start = 0, .stop = 1}), host}, 0)), 0,
                   {.start = 1});  // behind other rows
    case 2:
      return slice(upload(repeat_interleave(host, 2, -1)), -1, {.step = 2});  // every second
    case 3:
      return flip(upload(flip(host, axes)), axes);
    case 4:
      return permute(upload(permute(host, axes)), axes);
    default:
      return put(stored, dtype, device);
  }
}

// What is wrong with one case on one device; empty when nothing is.
class Comparison {
 public:
  // `number`: of the case among those of its function. The first has dense inputs, others rotate through views.
  Comparison(const StoredCase& stored, DeviceContext& device, size_t number)
      : c_(stored), device_(device), number_(number) {}

  std::string run() {
    const List inputs = make_inputs();
    const Arguments args(c_.args);
    const DeviceCounters before = device_.counters();
    const List outputs = functions().at(c_.op)(inputs, args);
    if (!args.unused().empty()) return fmt::format("the argument '{}' was not read", args.unused());
    if (outputs.size() != c_.outputs.size())
      return fmt::format("{} results instead of {}", outputs.size(), c_.outputs.size());
    const List gradients = gradients_of(inputs, outputs);
    check_nothing_read(before);
    for (size_t k = 0; k < outputs.size(); ++k) check_output(k, outputs[k]);
    check_nothing_on_host(before);
    if (c_.kind == "nan" || c_.kind == "infinite")
      return faults_;  // gradients are recorded all the same, so that it is the step of the case it was made from
    size_t at = 0;
    for (const auto& [input, expected] : c_.gradients) {
      const Tolerance allowed =
          c_.kind == "extreme" ? extreme_tolerance(expected.values) : gradient_tolerance(c_.in[input], expected.values);
      compare(fmt::format("gradient of input {}", input), gradients[at++], expected, allowed);
    }
    return faults_;
  }

 private:
  List make_inputs() const {
    List inputs;
    for (size_t k = 0; k < c_.inputs.size(); ++k) {
      inputs.push_back(stop_gradient(
          put_as_view(c_.inputs[k], c_.in[k], device_, number_ == 0 || !c_.kind.empty() ? 0 : number_ + k)));
      if (c_.gradients.contains(k)) inputs.back().set_requires_grad(true);
    }
    return inputs;
  }

  // Recorded before a value is looked at, so that forward and backward are one step.
  List gradients_of(const List& inputs, const List& outputs) const {
    List tracked, cotangents, wanted;
    for (const auto& [k, cotangent] : c_.cotangents) {
      tracked.push_back(outputs[k]);
      cotangents.push_back(put(cotangent, outputs[k].dtype(), device_));
    }
    for (const auto& [k, expected] : c_.gradients) wanted.push_back(inputs[k]);
    return wanted.empty() ? List{} : grad(tracked, wanted, cotangents);
  }

  // A function cannot compute on the host what it has not read. Host-sized ones read one number.
  void check_nothing_read(const DeviceCounters& before) {
    if (device_.caps().target == Target::none) return;  // which evaluates by reading
    const bool host_sized = find_function(c_.op)->no_vmap.starts_with("host-sized");
    if (host_sized && device_.caps().target == Target::none)
      return;  // the reference device reads whatever it evaluates
    const uint64_t read = device_.counters().bytes_read - before.bytes_read;
    if (read > (host_sized ? sizeof(int64_t) : 0))
      faults_ += fmt::format("the function read {} bytes of values; ", read);
  }

  // And core evaluates nothing there, on devices that have kernels.
  void check_nothing_on_host(const DeviceCounters& before) {
    const uint64_t evaluated = device_.counters().host_evaluations - before.host_evaluations;
    if (device_.caps().target == Target::none) return;
    on_host += evaluated;
    if (evaluated != 0) faults_ += fmt::format("{} operations were evaluated on the host; ", evaluated);
  }

  void check_output(size_t k, const Tensor& output) {
    if (c_.out[k] != "any" && name_of(output.dtype()) != c_.out[k])
      faults_ += fmt::format("output {} is {} instead of {}; ", k, name_of(output.dtype()), c_.out[k]);
    const Tolerance allowed =
        c_.kind == "extreme" ? extreme_tolerance(c_.outputs[k].values) : tolerance(c_.op, output.dtype());
    compare(fmt::format("output {}", k), output, c_.outputs[k], allowed);
  }

  void compare(const std::string& what, const Tensor& found, const StoredTensor& expected, const Tolerance& allowed) {
    ++compared;
    if (found.shape() != expected.shape) {
      faults_ += fmt::format("{} is {} instead of {}; ", what, found.shape().str(), expected.shape.str());
      return;
    }
    const std::string wrong = difference(found.to_doubles(), expected.values, allowed);
    if (!wrong.empty()) faults_ += fmt::format("{}: {}; ", what, wrong);
  }

  const StoredCase& c_;
  DeviceContext& device_;
  size_t number_;
  std::string faults_;
};

class StoredValues : public ::testing::TestWithParam<std::tuple<std::string, std::string>> {};

// Devices with kernels take all stored cases and the first derived one of each kind. In f32 extremes overflow
// elsewhere; what the reference device need not do as PyTorch, they need not.
std::vector<StoredCase> cases_of(const std::string& op, bool kernels) {
  std::vector<StoredCase> cases;
  std::set<std::string> kinds;
  for (const StoredCase& c : stored_cases().at(op)) {
    const bool taken = !kernels || c.kind.empty() ||
                       (c.kind != "extreme" && !exemption_of("StoredValues", c) && kinds.insert(c.kind).second);
    if (taken) cases.push_back(c);
  }
  return cases;
}

TEST_P(StoredValues, Agree) {
  const auto& [id, op] = GetParam();
  ASSERT_TRUE(functions().contains(op)) << "functions_*.cpp has no '" << op << "'";
  const bool kernels = device(id).caps().target != Target::none;
  size_t number = 0;
  check_cases(
      kernels ? "KernelValues" : "StoredValues", cases_of(op, kernels),
      [&](const StoredCase& c) {
        const size_t n = number++;
        return takes_case(id, op, n) ? Verdict(Comparison(c, device(id), n).run()) : not_applicable;
      },
      !kernels);
}

std::string test_name(const ::testing::TestParamInfo<StoredValues::ParamType>& info) {
  std::string name = std::get<0>(info.param) + "_" + std::get<1>(info.param);
  std::replace(name.begin(), name.end(), ':', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Torch, StoredValues,
                         ::testing::Combine(::testing::ValuesIn(test::value_devices()),
                                            ::testing::ValuesIn(stored_functions())),
                         test_name);

}  // namespace
}  // namespace heddle::tests
