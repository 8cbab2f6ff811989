// linear_cross_entropy against cross_entropy of the logits in double precision, and the memory that it takes.
#include "heddle/nn/linear_cross_entropy.h"

#include <cmath>

#include "heddle/autograd/autograd.h"
#include "heddle/core/compile/compile.h"
#include "heddle/core/functions/linalg/packed.h"
#include "heddle/core/functions/nn/losses.h"
#include "heddle/nn/nn.h"
#include "tests/nn/support.h"
#include "tests/support/device_test.h"
#include "tests/support/packed_blocks.h"

namespace heddle::tests {
namespace {

void expect_near(const Tensor& found, const Tensor& expected, double error, const std::string& what) {
  const Values all = found.to_doubles(), wanted = expected.to_doubles();
  ASSERT_EQ(all.size(), wanted.size()) << what;
  for (size_t i = 0; i < all.size(); ++i)
    ASSERT_NEAR(all[i], wanted[i], error * (1 + std::abs(wanted[i]))) << what << " at " << i;
}

struct Case {
  nn::LinearCrossEntropyOptions options;
  std::vector<int32_t> targets;
};
const std::vector<int32_t> plain{3, 36, 0, 17, 5}, ignored{3, -1, 0, -1, 36};
const Case options_and_targets[] = {
    {{.stretch = 8}, plain},
    {{.reduction = Reduction::sum, .stretch = 37}, plain},
    {{.reduction = Reduction::none, .stretch = 1}, plain},
    {{.ignore_index = -1, .stretch = 10}, ignored},
    {{.reduction = Reduction::none, .ignore_index = -1, .label_smoothing = 0.2, .stretch = 100}, ignored},
    {{.ignore_index = -1, .label_smoothing = 1, .stretch = 9}, ignored},
    {{.label_smoothing = 0.1, .stretch = 5}, plain}};

class LinearCrossEntropyTest : public DeviceTest {
 protected:
  // Losses and gradients of both forms, each weighted by the same cotangent.
  void compare(const Case& c, const Tensor& x, const Tensor& w, const Tensor& dense, const nn::Projection* head,
               double error) {
    const Tensor targets = Tensor::from_vector(c.targets, {5}, &x.device());
    Tensor x0 = x.detach().set_requires_grad(), w0 = w.detach();
    if (is_float(w.dtype())) w0.set_requires_grad();
    const Tensor loss = head != nullptr ? nn::linear_cross_entropy(x0, *head, targets, c.options)
                                        : nn::linear_cross_entropy(x0, w0, targets, c.options);
    Tensor x1 = f64(x.to_doubles(), x.shape()).set_requires_grad();
    Tensor w1 = dense.detach().set_requires_grad();
    const CrossEntropyOptions options{.reduction = c.options.reduction,
                                      .ignore_index = c.options.ignore_index,
                                      .label_smoothing = c.options.label_smoothing};
    const Tensor want = cross_entropy(matmul(x1, transpose(w1)), targets.to(reference()), options);
    expect_near(loss, want, error, "loss");
    const auto weighted = [](const Tensor& l) {
      const Tensor weights = Tensor::from_vector(wave(l.numel(), 0.9, 2), l.shape(), &reference());
      return sum(l * cast(weights, l.dtype() == DType::f64 ? DType::f64 : DType::f32).to(l.device()));
    };
    backward(weighted(loss));
    backward(weighted(want));
    expect_near(x0.grad(), x1.grad(), error, "x");
    if (is_float(w.dtype())) expect_near(w0.grad(), w1.grad(), error, "weight");
  }
};

TEST_P(LinearCrossEntropyTest, IsCrossEntropyOfTheLogits) {
  const Values x = wave(5 * 12, 0.7, 2), w = wave(37 * 12, 1.3, 1.5);
  for (const Case& c : options_and_targets)
    compare(c, f32(x, {5, 12}, device()), f32(w, {37, 12}, device()), f64(w, {37, 12}), nullptr, 2e-5);
}

TEST_P(LinearCrossEntropyTest, ReadsPackedClasses) {
  for (const GgmlType type : {GgmlType::q4_0, GgmlType::q6_k}) {
    const int64_t width = 256;
    const std::vector<uint8_t> bytes = test::random_blocks(type, 37 * width, 4);
    std::vector<float> elements(static_cast<size_t>(37 * width));
    dequantise(type, bytes, elements);
    const Tensor blocks =
        Tensor::from_bytes(bytes.data(), bytes.size(), DType::u8, packed_shape({37, width}, type), &device());
    const nn::Projection head({blocks, type}, {37, width});
    for (const Case& c : {options_and_targets[0], options_and_targets[4]})
      compare(c, f32(wave(5 * width, 0.7, 1), {5, width}, device()), blocks,
              f64(Values(elements.begin(), elements.end()), {37, width}), &head, 5e-5);
  }
}

// 1,500 rows of 4,000 classes are 24 MB of logits.
TEST_P(LinearCrossEntropyTest, MakesNoLogits) {
  const int64_t rows = 1500, classes = 4000, width = 32;
  const Tensor x = f32(wave(rows * width, 0.7, 1), {rows, width}, device()).set_requires_grad();
  const Tensor w = f32(wave(classes * width, 1.3, 1), {classes, width}, device()).set_requires_grad();
  std::vector<int32_t> numbers;
  for (int64_t i = 0; i < rows; ++i) numbers.push_back(static_cast<int32_t>(i * 7 % classes));
  const Tensor targets = Tensor::from_vector(numbers, {rows}, &device());
  eval({x, w, targets});
  const auto peak = [&](const std::function<Tensor()>& loss) {
    device().reset_peak_memory();
    const uint64_t before = device().memory().live_bytes;
    const Tensor lost = loss();
    const std::vector<Tensor> both = grad(lost, {x, w});
    eval({lost, both[0], both[1]});
    return device().memory().peak_bytes - before;
  };
  const uint64_t fused = peak([&] { return nn::linear_cross_entropy(x, w, targets, {.stretch = 256}); });
  EXPECT_LT(fused, static_cast<uint64_t>(rows * classes * 4) / 3);
  const uint64_t whole = peak([&] { return cross_entropy(matmul(x, transpose(w)), targets); });
  EXPECT_GT(whole, static_cast<uint64_t>(rows * classes * 4) / 4 * 3);
}

TEST_P(LinearCrossEntropyTest, TrainsALlamaAsItsLogitsDo) {
  Generator generator{.seed = 5};
  nn::Llama model({.vocabulary = 19, .context = 16, .layers = 1, .heads = 4, .key_heads = 2, .width = 24, .hidden = 20},
                  {.device = device(), .generator = &generator});
  const Tensor tokens = Tensor::from_vector<int32_t>({3, 14, 7, 7, 0, 18, 5, 1}, {2, 4}, &device());
  const Tensor targets = Tensor::from_vector<int32_t>({14, 7, 7, 9, 18, 5, 1, 2}, {2, 4}, &device());
  const auto gradients = [&](const std::function<Tensor()>& loss) {
    model.zero_grad();
    backward(loss());
    std::vector<Tensor> all;
    for (const Tensor& p : model.parameters()) all.push_back(p.grad());
    return all;
  };
  const auto fused = gradients(
      [&] { return nn::linear_cross_entropy(model.features(tokens), model.head(), targets, {.stretch = 7}); });
  const auto plain_ones = gradients([&] {
    return cross_entropy(reshape(model(tokens), {8, 19}), reshape(targets, {8}));
  });
  for (size_t i = 0; i < fused.size(); ++i) expect_near(fused[i], plain_ones[i], 1e-5, std::to_string(i));
}

HEDDLE_DEVICE_TESTS(LinearCrossEntropyTest);

TEST(LinearCrossEntropy, DoublePrecisionAndHigherOrders) {
  const Tensor x = f64(wave(5 * 6, 0.7, 2), {5, 6}).set_requires_grad();
  const Tensor w = f64(wave(11 * 6, 1.3, 1.5), {11, 6});
  const Tensor targets = Tensor::from_vector<int32_t>({3, 10, 0, 7, 5}, {5}, &reference());
  const auto second = [&](const Tensor& loss) {
    const Tensor g = grad(loss, x, {}, true);
    return grad(sum(square(g)), x);
  };
  expect_near(second(nn::linear_cross_entropy(x, w, targets, {.stretch = 4})),
              second(cross_entropy(matmul(x, transpose(w)), targets)), 1e-12, "second order");
}

// As cross_entropy() and PyTorch have it; the sum is 0.
TEST(LinearCrossEntropy, TheMeanOfNoTargetsIsNotANumber) {
  const Tensor x = f32(Values(12, 1), {2, 6}), w = f32(Values(30, 1), {5, 6});
  const Tensor targets = Tensor::from_vector<int32_t>({-1, -1}, {2}, &reference());
  EXPECT_TRUE(std::isnan(nn::linear_cross_entropy(x, w, targets, {.ignore_index = -1}).item()));
  EXPECT_TRUE(std::isnan(cross_entropy(matmul(x, transpose(w)), targets, {.ignore_index = -1}).item()));
  EXPECT_EQ(nn::linear_cross_entropy(x, w, targets, {.reduction = Reduction::sum, .ignore_index = -1}).item(), 0);
}

TEST(LinearCrossEntropy, RefusesWhatDoesNotFit) {
  const Tensor x = f32(Values(12, 1), {2, 6}), w = f32(Values(30, 1), {5, 6});
  const Tensor targets = Tensor::from_vector<int32_t>({1, 2}, {2}, &reference());
  expect_error<ShapeError>(
      [&] {
        nn::linear_cross_entropy(x, f32(Values(20, 1), {5, 4}), targets);
      },
      {"[linear_cross_entropy] x is (2, 6)", "4 elements"});
  expect_error<ShapeError>([&] { nn::linear_cross_entropy(x, w, unsqueeze(targets, 1)); }, {"targets (2, 1)"});
  expect_error<ShapeError>([&] { nn::linear_cross_entropy(x, f32({1}, {1}), targets); }, {"expected (V, C) floats"});
  expect_error<DTypeError>([&] { nn::linear_cross_entropy(x, w, cast(targets, DType::f32)); }, {"targets are f32"});
  expect_error<ValueError>([&] { nn::linear_cross_entropy(x, w, targets, {.label_smoothing = 2}); }, {"in [0, 1]"});
  expect_error<ValueError>([&] { nn::linear_cross_entropy(x, w, targets, {.stretch = 0}); }, {"at least 1"});
}

}  // namespace
}  // namespace heddle::tests
