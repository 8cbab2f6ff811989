// Kernels whose lanes read or write two neighbours of a short row (core/lower/lower_elementwise_pairs.cpp): windows of
// two and their gradients, halves of rows, rows twice as long. All numbers are small whole numbers or halves of them,
// many of them equal, so that results are the reference's to the bit and a tie shows which element won it.
#include <gtest/gtest.h>

#include <functional>

#include "heddle/autograd/autograd.h"
#include "heddle/core/compile/dump.h"
#include "heddle/core/device/context.h"
#include "heddle/core/functions/functions.h"
#include "heddle/core/tiles/tuning.h"
#include "tests/support/device_test.h"

namespace heddle::tests {
namespace {

using OfOneTensor = std::function<Tensor(const Tensor&)>;

Tensor numbers(const Shape& shape, int64_t period, DType dtype, DeviceContext& on) {
  std::vector<float> values(static_cast<size_t>(shape.numel()));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(static_cast<int64_t>(i * 37 % 101) % period - period / 2);
  return cast(Tensor::from_vector(values, shape, &on), dtype);
}

// Small units, so that a test has many of them: what a vector writes too much would fall into another one's rows.
const Bindings in_pairs = {{"PAIRS", 1}, {"STREAM", 0}, {"CHUNK", 1024}};

class Pairs : public DeviceTest {
 protected:
  void SetUp() override {
    if (device().caps().machine() != Machine::cpu_loops) GTEST_SKIP() << "lanes are no loop here";
  }

  void expect_reference(const char* name, const OfOneTensor& f, const Shape& shape, DType dtype) const {
    SCOPED_TRACE(std::string(name) + " " + shape.str() + " " + std::string(name_of(dtype)));
    const ScopedTuning forced({"elementwise", "", {}}, in_pairs);
    const std::vector<float> here = cast(f(numbers(shape, 9, dtype, device()).detach()), DType::f32).to_vector<float>(),
                             wanted =
                                 cast(f(numbers(shape, 9, dtype, heddle::device("reference:0")).detach()), DType::f32)
                                     .to_vector<float>();
    EXPECT_EQ(here, wanted);
  }

  // The text of the kernels that compute f.
  std::string text(const OfOneTensor& f, const Shape& shape) const {
    const ScopedTuning forced({"elementwise", "", {}}, in_pairs);
    const Tensor x = numbers(shape, 9, DType::f32, device()).detach();
    eval({x});
    const Tensor y = f(x);
    return dump_pending(DumpWhat::source);
  }
};

OfOneTensor gradient(const OfOneTensor& f) {
  return [f](const Tensor& x) {
    const Tensor leaf = x.requires_grad() ? x : x.detach().set_requires_grad(), y = f(leaf);
    return grad(sum(y * numbers(y.shape(), 5, x.dtype(), x.device())), leaf, {}, true);
  };
}

// As a network has it: a scale and a shift of each channel in front, whose gradient one kernel computes with the
// pool's.
Tensor scaled_pool(const Tensor& x) {
  const Shape channels{1, x.dim(1), 1, 1};
  return max_pool2d(relu(x * numbers(channels, 7, x.dtype(), x.device()) + numbers(channels, 3, x.dtype(), x.device())),
                    {2});
}

Tensor half_of_rows(const Tensor& x) { return slice(x, -1, {.start = 1, .step = 2}) * 2 + 1; }
Tensor pool(const Tensor& x) { return max_pool2d(x, {2}); }
Tensor pool_of_row(const Tensor& x) { return max_pool2d(x, {1, 2}); }
Tensor average(const Tensor& x) { return avg_pool2d(x, {2}); }
Tensor twice_as_long(const Tensor& x) { return interpolate(x, {.scale = {2, 2}}); }

TEST_P(Pairs, Sizes) {
  // Rows of fewer lanes than a vector, of whole vectors, of several and a rest; with a row or a column left over.
  for (const Shape& shape :
       {Shape{3, 5, 4, 6}, Shape{2, 3, 14, 14}, Shape{3, 7, 28, 28}, Shape{2, 2, 6, 34}, Shape{2, 3, 7, 7},
        Shape{1, 2, 9, 16}, Shape{5, 1, 2, 520}, Shape{0, 3, 4, 4}, Shape{1, 1, 2, 2}}) {
    expect_reference("pool", pool, shape, DType::f32);
    expect_reference("gradient of a scaled pool", gradient(scaled_pool), shape, DType::f32);
  }
}

TEST_P(Pairs, OtherFunctions) {
  const std::pair<const char*, OfOneTensor> functions[] = {
      {"row", pool_of_row}, {"average", average}, {"half", half_of_rows}, {"twice", twice_as_long}};
  for (const auto& [name, f] : functions) {
    expect_reference(name, f, {2, 3, 6, 22}, DType::f32);
    expect_reference((std::string("gradient of ") + name).c_str(), gradient(f), {2, 3, 6, 22}, DType::f32);
  }
}

TEST_P(Pairs, SixteenBits) {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    expect_reference("pool", pool, {2, 3, 8, 22}, dtype);
    expect_reference("gradient of a scaled pool", gradient(scaled_pool), {2, 3, 8, 22}, dtype);
  }
}

TEST_P(Pairs, SecondOrder) {
  const OfOneTensor cubed = [](const Tensor& x) { return pool(x * x * x); };
  expect_reference("second", gradient(gradient(cubed)), {2, 3, 6, 10}, DType::f32);
}

// What the tests above would not notice: that the kernels are others.
TEST_P(Pairs, AreTaken) {
  EXPECT_NE(text(pool, {3, 7, 28, 28}).find("VEVEN"), std::string::npos);
  EXPECT_NE(text(half_of_rows, {3, 7, 28, 27}).find("VEVEN"), std::string::npos);
  const std::string backward = text(gradient(scaled_pool), {3, 7, 28, 28});
  EXPECT_NE(backward.find("VEVEN"), std::string::npos);
  EXPECT_NE(backward.find("VZIP_LOW"), std::string::npos);
}

HEDDLE_DEVICE_TESTS(Pairs);

}  // namespace
}  // namespace heddle::tests
