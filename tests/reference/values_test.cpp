// Every function and its gradient on every device against values stored from PyTorch, computed in double precision.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "autograd/autograd.h"
#include "autograd/catalogue.h"
#include "tests/reference/functions.h"
#include "tests/reference/stored_cases.h"
#include "tests/support/device_test.h"
#include "tests/support/op_cases.h"

namespace heddle::tests {
namespace {

size_t compared = 0;     // cases times devices, values and gradients
uint64_t on_host = 0;    // operations evaluated on the host for devices with kernels

class Count : public ::testing::Environment {
 public:
  void TearDown() override { fmt::print("{} comparisons with PyTorch's stored values; {} operations of devices with kernels evaluated on the host\n", compared, on_host); }
};
const auto* const count = ::testing::AddGlobalTestEnvironment(new Count);

// A gradient adds up many terms that may cancel: its tolerance is relative to its largest element.
Tolerance gradient_tolerance(DType dtype, const std::vector<double>& expected) {
  double largest = 1e-2;
  for (const double v : expected) largest = std::isfinite(v) ? std::max(largest, std::abs(v)) : largest;
  const double unit = dtype == DType::f16 ? 4e-3 : dtype == DType::bf16 ? 3e-2 : 2e-5;
  return {unit, unit * largest};
}

Tensor put(const StoredTensor& stored, DType dtype, DeviceContext& device) {
  if (is_float(dtype)) return cast(Tensor::from_vector(std::vector<float>(stored.values.begin(), stored.values.end()), stored.shape, &device), dtype);
  return cast(Tensor::from_vector(std::vector<int32_t>(stored.values.begin(), stored.values.end()), stored.shape, &device), dtype);
}

class StoredValues : public ::testing::TestWithParam<std::tuple<std::string, std::string>> {
 protected:
  void check(const StoredCase& c) {
    SCOPED_TRACE(c.name);
    try {
      const std::vector<Tensor> inputs = make_inputs(c);
      const Arguments args(c.args);
      const DeviceCounters before = device().counters();
      const std::vector<Tensor> outputs = functions().at(c.op)(inputs, args);
      ASSERT_EQ(args.unused(), "") << "this argument was not read";
      ASSERT_EQ(outputs.size(), c.outputs.size());
      const std::vector<Tensor> gradients = gradients_of(c, inputs, outputs);
      check_nothing_read(c, before);
      for (size_t k = 0; k < outputs.size(); ++k) check_output(c, k, outputs[k]);
      size_t at = 0;
      for (const auto& [input, expected] : c.gradients) check_gradient(input, expected, c.in[input], gradients[at++]);
      check_nothing_on_host(before);
    } catch (const std::exception& e) {
      ADD_FAILURE() << e.what();
    }
  }

  DeviceContext& device() const { return heddle::device(std::get<0>(GetParam())); }

 private:
  std::vector<Tensor> make_inputs(const StoredCase& c) const {
    std::vector<Tensor> inputs;
    for (size_t k = 0; k < c.inputs.size(); ++k) {
      inputs.push_back(stop_gradient(put(c.inputs[k], c.in[k], device())));
      if (c.gradients.contains(k)) inputs.back().set_requires_grad(true);
    }
    return inputs;
  }

  // Recorded before a value is looked at, so that forward and backward are one step.
  std::vector<Tensor> gradients_of(const StoredCase& c, const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs) const {
    std::vector<Tensor> tracked, cotangents, wanted;
    for (const auto& [k, cotangent] : c.cotangents) {
      tracked.push_back(outputs[k]);
      cotangents.push_back(put(cotangent, outputs[k].dtype(), device()));
    }
    for (const auto& [k, expected] : c.gradients) wanted.push_back(inputs[k]);
    return wanted.empty() ? std::vector<Tensor>{} : grad(tracked, wanted, cotangents);
  }

  // A function cannot compute on the host what it has not read. Host-sized ones read one number.
  void check_nothing_read(const StoredCase& c, const DeviceCounters& before) const {
    const bool host_sized = find_function(c.op)->no_vmap.starts_with("host-sized");
    EXPECT_LE(device().counters().bytes_read - before.bytes_read, host_sized ? sizeof(int64_t) : 0u) << "the function looks at values";
  }

  // And core evaluates nothing there, on devices that have kernels.
  void check_nothing_on_host(const DeviceCounters& before) const {
    const uint64_t evaluated = device().counters().host_evaluations - before.host_evaluations;
    EXPECT_EQ(evaluated == 0, device().caps().target != Target::none) << evaluated << " operations";
    on_host += device().caps().target != Target::none ? evaluated : 0;
  }

  static void check_output(const StoredCase& c, size_t k, const Tensor& output) {
    ++compared;
    EXPECT_EQ(output.shape().str(), c.outputs[k].shape.str());
    if (c.out[k] != "any") { EXPECT_EQ(name_of(output.dtype()), c.out[k]); }
    EXPECT_EQ(difference(output.to_doubles(), c.outputs[k].values, tolerance(c.op, output.dtype())), "") << "output " << k;
  }

  static void check_gradient(size_t input, const StoredTensor& expected, DType dtype, const Tensor& gradient) {
    ++compared;
    EXPECT_EQ(gradient.shape().str(), expected.shape.str());
    EXPECT_EQ(difference(gradient.to_doubles(), expected.values, gradient_tolerance(dtype, expected.values)), "") << "gradient of input " << input;
  }
};

TEST_P(StoredValues, Agree) {
  const std::string& op = std::get<1>(GetParam());
  ASSERT_TRUE(functions().contains(op)) << "functions_*.cpp has no '" << op << "'";
  for (const StoredCase& c : stored_cases().at(op)) check(c);
}

std::vector<std::string> stored_functions() {
  std::vector<std::string> names;
  for (const auto& [name, cases] : stored_cases()) names.push_back(name);
  return names;
}

std::string test_name(const ::testing::TestParamInfo<StoredValues::ParamType>& info) {
  std::string name = std::get<0>(info.param) + "_" + std::get<1>(info.param);
  std::replace(name.begin(), name.end(), ':', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Torch, StoredValues, ::testing::Combine(::testing::ValuesIn(test::value_devices()), ::testing::ValuesIn(stored_functions())), test_name);

}  // namespace
}  // namespace heddle::tests
