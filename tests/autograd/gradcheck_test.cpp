// Every rule against directional finite differences, first and second order, in f64 on the reference device.
#include "heddle/autograd/gradcheck.h"

#include <gtest/gtest.h>

#include "heddle/autograd/autograd.h"
#include "heddle/autograd/rules.h"
#include "heddle/core/device/context.h"
#include "heddle/core/op/op.h"
#include "tests/autograd/cases.h"

namespace heddle::tests {
namespace {

void check(const std::vector<GradientCase>& cases) {
  for (const GradientCase& c : cases) {
    SCOPED_TRACE(c.name);
    const std::vector<Tensor> inputs = make_inputs(c, DType::f64, device("reference:0"));
    const GradcheckResult result = gradcheck([&](Inputs in) { return std::vector<Tensor>{c.f(in)}; }, inputs);
    EXPECT_TRUE(result.ok) << c.name << ": " << result.message;
  }
}

TEST(Gradcheck, EveryElementwiseRow) {
  const std::vector<GradientCase> cases = elementwise_cases();
  EXPECT_GE(cases.size(), 30u);
  check(cases);
}

TEST(Gradcheck, EveryFunction) { check(function_cases()); }

TEST(Gradcheck, ProductsWithZeros) {
  for (const std::vector<double>& row :
       {std::vector<double>{0, 2, 3, -1}, {0, 0, 3, 2}, {1, 2, 0, 0}, {0, 0, 0, 5}, {0, 0, 0, 0}}) {
    const Tensor x = Tensor::from_vector(row, Shape{1, 4}, &device("reference:0"));
    const GradcheckResult result =
        gradcheck([](Inputs in) { return std::vector<Tensor>{prod(in[0], {1})}; }, std::span(&x, 1));
    EXPECT_TRUE(result.ok) << result.message;
  }
}

TEST(Gradcheck, SeveralOutputs) {
  const GradientCase c{"several", {{3}, {2, 3}}, {}};
  const std::vector<Tensor> inputs = make_inputs(c, DType::f64, device("reference:0"));
  const GradcheckResult result = gradcheck(
      [](Inputs in) {
        const Tensor shared = tanh(in[0] + in[1]);
        return std::vector<Tensor>{shared * in[0], sum(exp(shared), {0}), in[1] * 2};
      },
      inputs);
  EXPECT_TRUE(result.ok) << result.message;
}

// The check itself must catch a wrong derivative: detach hides a part of it.
TEST(Gradcheck, FindsAWrongGradient) {
  const GradientCase c{"wrong", {{4}}, {}};
  const std::vector<Tensor> inputs = make_inputs(c, DType::f64, device("reference:0"));
  const GradcheckResult first =
      gradcheck([](Inputs in) { return std::vector<Tensor>{in[0] * stop_gradient(in[0])}; }, inputs);
  EXPECT_FALSE(first.ok);
  EXPECT_NE(first.message.find("first order"), std::string::npos) << first.message;
  EXPECT_GT(first.worst, 1e-3);
}

TEST(Gradcheck, RefusesNarrowTypes) {
  const Tensor x = Tensor::from_vector(std::vector<float>{1, 2}, Shape{2}, &device("reference:0"));
  EXPECT_THROW(gradcheck([](Inputs in) { return std::vector<Tensor>{in[0]}; }, std::span(&x, 1)), ValueError);
}

// vjp() refuses a rule whose result has another shape or dtype than its input; half precision is where rules slip.
TEST(Gradcheck, RulesKeepHalfPrecision) {
  std::vector<GradientCase> cases = elementwise_cases();
  for (GradientCase& c : function_cases()) cases.push_back(std::move(c));
  for (const DType dtype : {DType::f16, DType::bf16}) {
    for (const GradientCase& c : cases) {
      SCOPED_TRACE(c.name);
      const std::vector<Tensor> inputs = make_inputs(c, dtype, device("reference:0"));
      const Tensor y = c.f(inputs);
      const std::vector<Tensor> gradients = grad(sum(y), std::span<const Tensor>(inputs));
      for (size_t i = 0; i < inputs.size(); ++i) {
        EXPECT_EQ(gradients[i].dtype(), dtype);
        EXPECT_EQ(gradients[i].shape(), inputs[i].shape());
      }
    }
  }
}

TEST(GradientTable, EveryRowHasARuleOrAReason) {
  for (const OpDef* row : all_ops()) {
    const autograd::GradientRow* gradient = autograd::find_gradient(*row);
    ASSERT_NE(gradient, nullptr) << "no row for '" << row->name << "' in autograd/";
    EXPECT_NE(gradient->rule != nullptr, !gradient->reason.empty()) << row->name << " needs either a rule or a reason";
    EXPECT_EQ(gradient_status(*row), gradient->rule ? "yes" : std::string(gradient->reason));
  }
  EXPECT_EQ(gradient_status(op("tanh")), "yes");
  EXPECT_EQ(gradient_status(op("isnan")), "its result is a truth value");
}

}  // namespace
}  // namespace heddle::tests
