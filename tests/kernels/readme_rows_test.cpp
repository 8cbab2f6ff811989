// README's text on adding an op: its rows have the form of the tables' rows, and say what they seem to say. CMake takes
// them out of README.md (tests/kernels/group.cmake); here they stand under the parameters of the real macros, which the
// real tables are read with as well.
#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <string>

#include "heddle/autograd/catalogue.h"
#include "heddle/autograd/transforms.h"
#include "heddle/core/device/context.h"
#include "heddle/core/functions/functions.h"
#include "heddle/core/functions/user/user_kernel.h"
#include "heddle/core/op/op.h"
#include "tests/support/device_test.h"
#include "tests/support/devices.h"

namespace heddle {
namespace {

struct Row {
  std::string name;
  DTypeRule rule;
  Autocast autocast;
  int cost;
  std::string dialect;
  double (*host)(double x);
  std::string meaning;
};

Row readme_row() {
#define HEDDLE_UNARY(name, rule, autocast, cost, dialect, host, doc) \
  return {#name,                                                     \
          DTypeRule::rule,                                           \
          Autocast::autocast,                                        \
          cost,                                                      \
          dialect,                                                   \
          [](double x) {                                             \
            using T [[maybe_unused]] = double;                       \
            return static_cast<double>(host);                        \
          },                                                         \
          doc};
#include "readme_op_row.inc"
#undef HEDDLE_UNARY
}

Tensor readme_gradient([[maybe_unused]] const Tensor& x, [[maybe_unused]] const Tensor& out, const Tensor& g) {
#define HEDDLE_GRAD_UNARY(name, dx) return dx;
#include "readme_gradient_row.inc"
#undef HEDDLE_GRAD_UNARY
}

std::set<std::string> named_by_readme() {
  return {
#define HEDDLE_UNARY(name, rule, autocast, cost, dialect, host, doc) #name,
#define HEDDLE_GRAD_UNARY(name, dx) #name,
#define HEDDLE_ELEMENTWISE(name) #name,
#include "readme_catalogue_row.inc"
#include "readme_gradient_row.inc"
#include "readme_op_row.inc"
#undef HEDDLE_UNARY
#undef HEDDLE_GRAD_UNARY
#undef HEDDLE_ELEMENTWISE
  };
}

// The tables themselves take rows of this form.
std::set<std::string> rows_of_the_table() {
  return {
#define HEDDLE_UNARY(name, rule, autocast, cost, dialect, host, doc) #name,
#define HEDDLE_BINARY(name, rule, autocast, cost, dialect, host, doc) #name,
#include "heddle/core/op/elementwise.inc"
#undef HEDDLE_UNARY
#undef HEDDLE_BINARY
  };
}
std::set<std::string> rows_of_gradients() {
  return {
#define HEDDLE_GRAD_UNARY(name, dx) #name,
#define HEDDLE_GRAD_BINARY(name, dx, dy) #name,
#define HEDDLE_NO_GRAD(name, why) #name,
#include "heddle/autograd/rules_elementwise.inc"
#undef HEDDLE_GRAD_UNARY
#undef HEDDLE_GRAD_BINARY
#undef HEDDLE_NO_GRAD
  };
}

TEST(ReadmeRows, AreOfAnOpThatIsNotThereYet) {
  const std::string name = readme_row().name;
  EXPECT_EQ(named_by_readme(), std::set<std::string>{name});  // the three rows are one op's
  EXPECT_EQ(find_op(name), nullptr);
  for (const PublicFunction& f : catalogue()) EXPECT_NE(f.name, name);
  EXPECT_FALSE(readme_row().meaning.empty());
}

TEST(ReadmeRows, TheTablesHaveTheirForm) {
  EXPECT_EQ(rows_of_the_table(), rows_of_gradients());  // every op has its gradient's row, as the text says
  EXPECT_GT(rows_of_the_table().size(), 60u);
}

class ReadmeRow : public ::testing::TestWithParam<std::string> {
 protected:
  DeviceContext& device() const { return heddle::device(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(Devices, ReadmeRow, ::testing::ValuesIn(test::value_devices()), tests::backend_test_name);

// The dialect's expression on the device and the gradient's row, against the host's expression in double precision.
TEST_P(ReadmeRow, ExpressionsAndGradientAgree) {
  const Row row = readme_row();
  const UserKernel op = elementwise_kernel(
      {.name = row.name,
       .inputs = {"x"},
       .text = row.dialect,
       .rule = row.rule,
       .autocast = row.autocast,
       .cost = row.cost,
       .host = [host = row.host](std::span<const double> in, std::span<double> out) { out[0] = host(in[0]); },
       .vjp =
           [](const UserCall& c) { return std::vector{readme_gradient(c.inputs[0], c.outputs[0], c.cotangents[0])}; }});
  std::vector<float> points;
  for (int i = -24; i <= 24; ++i) points.push_back(static_cast<float>(i) / 8);
  const Tensor x = Tensor::from_vector(points, {static_cast<int64_t>(points.size())}, &device());
  const std::vector<double> values = op(x).to_doubles();
  const std::vector<double> slopes = grad([&](const Tensor& t) { return sum(op(t)); })(x).to_doubles();
  for (size_t i = 0; i < points.size(); ++i) {
    const double at = points[i], h = 1e-5;
    EXPECT_NEAR(values[i], row.host(at), 1e-6 * (1 + std::abs(row.host(at)))) << row.name << "(" << at << ")";
    EXPECT_NEAR(slopes[i], (row.host(at + h) - row.host(at - h)) / (2 * h), 1e-5) << row.name << "'(" << at << ")";
  }
}

}  // namespace
}  // namespace heddle
