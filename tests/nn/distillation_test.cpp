// Distillation against PyTorch in double precision (distillation_values.py), against finite differences, and the memory
// that it takes.
#include "heddle/nn/distillation.h"

#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "heddle/autograd/autograd.h"
#include "heddle/core/functions/linalg/packed.h"
#include "tests/nn/support.h"
#include "tests/support/coverage.h"
#include "tests/support/device_test.h"
#include "tests/support/packed_blocks.h"

namespace heddle::tests {
namespace {

using Json = nlohmann::json;
using nn::Divergence;

void expect_values(const Tensor& found, const Values& wanted, double error, const std::string& what) {
  const Values all = found.to_doubles();
  ASSERT_EQ(all.size(), wanted.size()) << what;
  for (size_t i = 0; i < all.size(); ++i)
    ASSERT_NEAR(all[i], wanted[i], error * (1 + std::abs(wanted[i]))) << what << " at " << i;
}

Tensor weighted(const Tensor& losses) {
  const Tensor weights = Tensor::from_vector(wave(losses.numel(), 0.9, 2), losses.shape(), &reference());
  return sum(losses * cast(weights, losses.dtype()).to(losses.device()));
}

// The rows, classes and widths of distillation_values.py.
constexpr int64_t rows = 5, classes = 37, student_width = 12, teacher_width = 7;

class Distillation : public testing::TestWithParam<std::string> {
 protected:
  DeviceContext& device() const { return heddle::device(GetParam()); }
};

nn::DistillationOptions distillation_of(const Json& c) {
  const std::string how = c["divergence"];
  return {.divergence = how == "forward"   ? Divergence::forward
                        : how == "reverse" ? Divergence::reverse
                                           : Divergence::jensen_shannon,
          .temperature = c["temperature"],
          .mixture = c["mixture"],
          .classes = c["classes"]};
}

TEST_P(Distillation, IsPyTorchsInStretchesAndByLogits) {
  Json recorded;
  std::ifstream(HEDDLE_SOURCE_DIR "/tests/nn/distillation_values.json") >> recorded;
  const Tensor tx = f32(wave(rows * teacher_width, 0.4, 1.5), {rows, teacher_width}, device());
  const Tensor tw = f32(wave(classes * teacher_width, 1.1, 2), {classes, teacher_width}, device());
  const auto compare = [&](const Json& c, nn::DistillationOptions options, bool stretches) {
    const Tensor x = f32(wave(rows * student_width, 0.7, 2), {rows, student_width}, device()).set_requires_grad();
    const nn::Projection head({f32(wave(classes * student_width, 1.3, 1.5), {classes, student_width}, device())},
                              {classes, student_width});
    const nn::Projection teacher({tw}, {classes, teacher_width});
    const Tensor losses = stretches ? nn::linear_distillation({x, head}, {tx, teacher}, options)
                                    : nn::distillation_loss(matmul(x, transpose(head.weight)),
                                                            matmul(tx, transpose(teacher.weight)), options);
    ASSERT_EQ(losses.shape(), Shape({rows}));
    expect_values(losses, c["losses"], 3e-5, "losses");
    backward(weighted(losses));
    expect_values(x.grad(), c["x"], 3e-5, "x");
    expect_values(head.weight.grad(), c["weight"], 3e-5, "weight");
    EXPECT_FALSE(teacher.weight.grad().defined());
  };
  size_t number = 0;
  for (const Json& c : recorded["cases"]) {
    if (!takes_case(GetParam(), "", number++)) continue;
    SCOPED_TRACE(c["divergence"].get<std::string>() + c["temperature"].dump());
    nn::DistillationOptions options = distillation_of(c);
    compare(c, options, false);
    for (const int64_t stretch : {8, 30, 100}) {
      options.stretch = stretch;
      compare(c, options, true);
    }
  }
}

TEST_P(Distillation, ReadsPackedWeightsOfBoth) {
  const int64_t wide = 256;
  const auto packed = [&](GgmlType type, uint32_t seed, Tensor& dense) {
    const std::vector<uint8_t> bytes = test::random_blocks(type, classes * wide, seed);
    std::vector<float> elements(static_cast<size_t>(classes * wide));
    dequantise(type, bytes, elements);
    dense = Tensor::from_vector(elements, {classes, wide}, &device());
    const Shape shape = packed_shape({classes, wide}, type);
    return nn::Projection({Tensor::from_bytes(bytes.data(), bytes.size(), DType::u8, shape, &device()), type},
                          {classes, wide});
  };
  Tensor dense, teacher_dense;
  const nn::Projection head = packed(GgmlType::q4_0, 4, dense), teacher = packed(GgmlType::q6_k, 5, teacher_dense);
  const Tensor tx = f32(wave(rows * wide, 0.4, 1), {rows, wide}, device());
  const auto gradient = [&](bool stretches) {
    const Tensor x = f32(wave(rows * wide, 0.7, 1), {rows, wide}, device()).set_requires_grad();
    const nn::DistillationOptions options{.temperature = 2, .stretch = 10};
    const Tensor losses =
        stretches ? nn::linear_distillation({x, head}, {tx, teacher}, options)
                  : nn::distillation_loss(matmul(x, transpose(dense)), matmul(tx, transpose(teacher_dense)), options);
    backward(weighted(losses));
    return std::pair(losses.to_doubles(), x.grad());
  };
  const auto [plain_losses, plain] = gradient(false);
  const auto [losses, fused] = gradient(true);
  for (size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(losses[i], plain_losses[i], 1e-4 * (1 + plain_losses[i]));
  expect_values(fused, plain.to_doubles(), 1e-4, "x");
}

// Equal distributions are at a distance of 0, wherever their logits lie; nothing follows from no rows, and NaN stays.
TEST_P(Distillation, EqualEmptyAndNotANumber) {
  const nn::Projection head({f32(wave(classes * student_width, 1.3, 1.5), {classes, student_width}, device())},
                            {classes, student_width});
  const Tensor x = f32(wave(rows * student_width, 0.7, 60), {rows, student_width}, device());
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const Divergence how : {Divergence::forward, Divergence::reverse, Divergence::jensen_shannon}) {
    const nn::DistillationOptions options{.divergence = how, .stretch = 16};
    const Tensor own = x.detach().set_requires_grad();
    const Tensor same = nn::linear_distillation({own, head}, {x, head}, options);
    backward(sum(same));
    expect_values(same, Values(rows, 0), 2e-5, "same");
    expect_values(own.grad(), Values(rows * student_width, 0), 1e-4, "its gradient");
    const Tensor none = zeros({0, student_width}, DType::f32, &device());
    EXPECT_EQ(nn::linear_distillation({none, head}, {none, head}, options).shape(), Shape({0}));
    Values broken = wave(2 * student_width, 0.7, 1);
    broken[3] = nan;
    const Tensor bad = f32(broken, {2, student_width}, device());
    const Values found =
        nn::linear_distillation({bad, head}, {f32(wave(2 * student_width, 0.4, 1), {2, student_width}, device()), head},
                                options)
            .to_doubles();
    EXPECT_TRUE(std::isnan(found[0]));
    EXPECT_TRUE(std::isfinite(found[1]));
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, Distillation, testing::ValuesIn(test::value_devices()), device_test_name);

// 1,500 rows of 4,000 classes are 24 MB of logits, of each model.
class DistillationMemory : public DeviceTest {};
TEST_P(DistillationMemory, HoldsNoLogitsOfEither) {
  const int64_t many = 1500, all = 4000, wide = 32;
  const Tensor x = f32(wave(many * wide, 0.7, 1), {many, wide}, device()).set_requires_grad();
  const Tensor tx = f32(wave(many * wide, 0.4, 1), {many, wide}, device());
  const nn::Projection head({f32(wave(all * wide, 1.3, 1), {all, wide}, device())}, {all, wide});
  const nn::Projection teacher({f32(wave(all * wide, 1.1, 1), {all, wide}, device())}, {all, wide});
  eval({x, tx, head.weight, teacher.weight});
  for (const Divergence how : {Divergence::forward, Divergence::jensen_shannon}) {
    device().reset_peak_memory();
    const uint64_t before = device().memory().live_bytes;
    const Tensor lost =
        mean(nn::linear_distillation({x, head}, {tx, teacher}, {.divergence = how, .temperature = 2, .stretch = 256}));
    const std::vector<Tensor> both = grad(lost, {x, head.weight});
    eval({lost, both[0], both[1]});
    EXPECT_LT(device().memory().peak_bytes - before, static_cast<uint64_t>(many * all * 4) / 2);
  }
}
HEDDLE_DEVICE_TESTS(DistillationMemory);

// Of the rule itself in double precision, and of its own derivative.
TEST(DistillationRule, AgreesWithFiniteDifferencesAndWithLogitsTwice) {
  const nn::Projection head({f64(wave(11 * 6, 1.3, 1.5), {11, 6})}, {11, 6});
  const nn::Projection teacher({f64(wave(13 * 4, 1.1, 2), {13, 4})}, {13, 4});
  const Tensor tx = f64(wave(3 * 4, 0.4, 1.5), {3, 4});
  for (const Divergence how : {Divergence::forward, Divergence::reverse, Divergence::jensen_shannon}) {
    const nn::DistillationOptions options{.divergence = how, .temperature = 1.5, .mixture = 0.3, .stretch = 4};
    const auto fused = [&](const Tensor& x) {
      return weighted(nn::linear_distillation({x, head}, {tx, teacher}, options));
    };
    const auto plain = [&](const Tensor& x) {
      return weighted(
          nn::distillation_loss(matmul(x, transpose(head.weight)), matmul(tx, transpose(teacher.weight)), options));
    };
    const Values values = wave(3 * 6, 0.7, 2);
    const Tensor x = f64(values, {3, 6}).set_requires_grad();
    const Values found = grad(fused(x), x).to_doubles();
    constexpr double step = 1e-5;
    for (size_t i = 0; i < values.size(); ++i) {
      Values up = values, down = values;
      up[i] += step;
      down[i] -= step;
      const double slope = (fused(f64(up, {3, 6})).item() - fused(f64(down, {3, 6})).item()) / (2 * step);
      EXPECT_NEAR(found[i], slope, 1e-8) << i;
    }
    const auto second = [&](const auto& loss) { return grad(sum(square(grad(loss(x), x, {}, true))), x).to_doubles(); };
    expect_values(f64(second(fused), {18}), second(plain), 1e-10, "second order");
  }
}

TEST(DistillationRefuses, WhatDoesNotFit) {
  const nn::Projection head({f32(wave(30, 1, 1), {5, 6})}, {5, 6}), teacher({f32(wave(28, 1, 1), {7, 4})}, {7, 4});
  const Tensor x = f32(Values(12, 1), {2, 6}), tx = f32(Values(8, 1), {2, 4});
  const auto with = [&](const nn::DistillationOptions& o) { nn::linear_distillation({x, head}, {tx, teacher}, o); };
  expect_error<ShapeError>(
      [&] {
        nn::linear_distillation({x, head}, {unsqueeze(tx, 0), teacher});
      },
      {"[linear_distillation]", "the student's are (2, 6), the teacher's (1, 2, 4)"});
  expect_error<ShapeError>(
      [&] {
        nn::linear_distillation({x, head}, {tx, head});
      },
      {"teacher's features", "6 elements"});
  expect_error<ShapeError>([&] { nn::distillation_loss(x, f32({1}, {1})); }, {"[distillation_loss]"});
  expect_error<DTypeError>([&] { nn::distillation_loss(x, cast(tx, DType::i32)); }, {"expected floats (..., C)"});
  expect_error<ValueError>([&] { with({.temperature = 0}); }, {"temperature is 0; it must be above 0"});
  expect_error<ValueError>([&] { with({.temperature = std::nan("")}); }, {"temperature is nan"});
  expect_error<ValueError>([&] { with({.divergence = Divergence::jensen_shannon, .mixture = 1}); }, {"mixture is 1"});
  expect_error<ValueError>([&] { with({.classes = 6}); }, {"classes is 6; the vocabularies hold 5 and 7"});
  expect_error<ValueError>([&] { with({.stretch = 0}); }, {"stretch is 0"});
}

}  // namespace
}  // namespace heddle::tests
