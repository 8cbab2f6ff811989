// Every elementwise row fuses: between its neighbours, into a reduction and into a matmul's epilogue, with the
// reference's values and in one kernel. Rows come from the table, so a new one is tested without an edit here.
#include <gtest/gtest.h>

#include <cmath>

#include "checks/op_cases.h"
#include "tests/support/coverage.h"
#include "tests/support/devices.h"

namespace heddle::tests {
namespace {

using namespace checks;

using test::kernel_devices;

std::vector<const OpDef*> elementwise_rows() {
  std::vector<const OpDef*> rows;
  for (const OpDef* row : all_ops()) {
    if (row->kind == OpKind::elementwise && row->rule != DTypeRule::any && row->rule != DTypeRule::whole)
      rows.push_back(row);
  }
  return rows;
}

// Irrational steps with different starts: no two operands are equal, and nothing lies on a jump of floor, round or mod.
Tensor leaf(const Shape& shape, double low, double high, double start, DeviceContext& dev) {
  std::vector<float> data(static_cast<size_t>(shape.numel()));
  for (size_t i = 0; i < data.size(); ++i) {
    data[i] = static_cast<float>(low + (high - low) * std::fmod(start + static_cast<double>(i) * 0.6180339887, 1.0));
  }
  return Tensor::from_vector(data, shape, &dev);
}

// before -> row -> after, with operands in (0.1, 0.9), where every row is defined and finite.
Tensor around(const OpDef& row, const Tensor& x, const Tensor& y) {
  std::vector<Tensor> in{x * 0.8 + 0.1};
  if (row.arity == 2) in.push_back(y);
  return apply_row(row, in).to(DType::f32) * 0.5 + x;
}

Tensor program(const OpDef& row, const std::string& place, DeviceContext& dev) {
  const Tensor y = leaf({5, 13}, 0.1, 0.9, 0.27, dev);
  if (place == "epilogue") {
    return around(row, matmul(leaf({5, 3}, 0, 0.5, 0.11, dev), leaf({3, 13}, 0, 0.5, 0.4, dev)), y);
  }
  const Tensor chain = around(row, leaf({5, 13}, 0, 1, 0.05, dev), y);
  return place == "chain" ? chain : sum(chain, {1});
}

class RowFusion : public ::testing::TestWithParam<std::string> {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(RowFusion);  // a machine without any driver

TEST_P(RowFusion, EveryRowInEveryPlace) {
  DeviceContext& dev = device(GetParam());
  for (const OpDef* row : elementwise_rows()) {
    size_t number = 0;
    for (const std::string place : {"chain", "reduction", "epilogue"}) {
      if (!takes_case(GetParam(), row->name, ++number)) continue;
      SCOPED_TRACE(std::string(row->name) + " in a " + place);
      const std::vector<double> expected = program(*row, place, device("reference:0")).to_doubles();
      const uint64_t before = dev.counters().kernels;
      const std::vector<double> values = program(*row, place, dev).to_doubles();
      EXPECT_EQ(dev.counters().kernels - before, 1u) << "kernels";
      EXPECT_EQ(difference(values, expected, {2e-5, 2e-5}), "");
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, RowFusion, ::testing::ValuesIn(kernel_devices()), [](const auto& test) {
  std::string name = test.param;
  for (char& c : name) c = c == ':' ? '_' : c;
  return name;
});

}  // namespace
}  // namespace heddle::tests
