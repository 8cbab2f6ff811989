// Metrics and averaged parameters against plain loops in double, on every device.
#include "heddle/nn/metrics.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "heddle/autograd/autograd.h"
#include "heddle/core/compile/compile.h"
#include "heddle/core/device/context.h"
#include "heddle/core/graph/philox.h"
#include "heddle/nn/average.h"
#include "heddle/nn/layers.h"
#include "heddle/nn/optim.h"
#include "tests/nn/support.h"

namespace heddle::tests {
namespace {

class MetricsOnDevice : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    try {
      on_ = &device(GetParam());
    } catch (const DeviceUnavailable& error) {
      GTEST_SKIP() << error.what();
    }
  }
  DeviceContext* on_ = nullptr;
};

INSTANTIATE_TEST_SUITE_P(Devices, MetricsOnDevice, testing::Values("reference:0", "opencl:0", "vulkan:0"),
                         [](const auto& param_info) {
                           return std::string(param_info.param).substr(0, std::string(param_info.param).find(':'));
                         });

void expect_near(const Values& found, const Values& expected, double tolerance) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], tolerance) << i;
}

uint32_t drawn(uint32_t i, uint32_t below) {
  return static_cast<uint32_t>(philox_uniform({9, 1, 2, 3}, i) * static_cast<float>(below)) % below;
}

TEST_P(MetricsOnDevice, ConfusionCountsEveryPair) {
  constexpr int64_t classes = 4;
  nn::ConfusionMatrix matrix(classes, on_);
  std::vector<std::vector<int64_t>> expected(classes, std::vector<int64_t>(classes));
  uint32_t at = 0;
  for (const int64_t batch : {7, 1, 30}) {
    std::vector<int32_t> predicted, labels;
    for (int64_t i = 0; i < batch; ++i) {
      const auto p = static_cast<int32_t>(drawn(at++, 3)),
                 l = static_cast<int32_t>(drawn(at++, 6)) - 1;  // class 3 is never predicted; -1 and 4 are no classes
      predicted.push_back(p);
      labels.push_back(l);
      if (l >= 0 && l < classes) ++expected[static_cast<size_t>(l)][static_cast<size_t>(p)];
    }
    matrix.add(Tensor::from_vector(predicted, Shape{batch}, on_), Tensor::from_vector(labels, Shape{batch}, on_));
  }
  EXPECT_EQ(matrix.counts(), expected);
  int64_t right = 0, all = 0;
  double f1 = 0;
  for (size_t c = 0; c < classes; ++c) {
    int64_t predicted = 0, labelled = 0;
    for (size_t k = 0; k < classes; ++k) {
      predicted += expected[k][c];
      labelled += expected[c][k];
    }
    right += expected[c][c];
    all += labelled;
    const double p = static_cast<double>(expected[c][c]) / static_cast<double>(predicted),
                 r = static_cast<double>(expected[c][c]) / static_cast<double>(labelled);
    if (predicted > 0)
      EXPECT_DOUBLE_EQ(matrix.precision()[c], p);
    else
      EXPECT_TRUE(std::isnan(matrix.precision()[c]));
    EXPECT_DOUBLE_EQ(matrix.recall()[c], r);
    const double of_class = expected[c][c] == 0 ? 0 : 2 * p * r / (p + r);
    EXPECT_NEAR(matrix.f1()[c], of_class, 1e-15);
    f1 += of_class / classes;
  }
  EXPECT_DOUBLE_EQ(matrix.accuracy(), static_cast<double>(right) / static_cast<double>(all));
  EXPECT_NEAR(matrix.macro_f1(), f1, 1e-15);
  matrix.reset();
  EXPECT_TRUE(std::isnan(matrix.accuracy()));
}

TEST_P(MetricsOnDevice, TopKFindsTheLabelAmongTheBest) {
  constexpr int64_t n = 23, classes = 9;
  Values scores;
  std::vector<int32_t> labels;
  for (uint32_t i = 0; i < n * classes; ++i) scores.push_back(philox_uniform({1, 2, 3, 4}, i));
  for (uint32_t i = 0; i < n; ++i) labels.push_back(static_cast<int32_t>(drawn(i, classes)));
  for (const int64_t k : {1, 3, 9}) {
    nn::TopK metric(k, on_);
    int64_t right = 0;
    for (int64_t i = 0; i < n; ++i) {
      const double own = scores[static_cast<size_t>(i * classes + labels[static_cast<size_t>(i)])];
      int64_t larger = 0;
      for (int64_t c = 0; c < classes; ++c) larger += scores[static_cast<size_t>(i * classes + c)] > own;
      right += larger < k;
    }
    metric.add(f32(scores, Shape{n, classes}, *on_), Tensor::from_vector(labels, Shape{n}, on_));
    EXPECT_DOUBLE_EQ(metric.value(), static_cast<double>(right) / n) << k;
  }
}

TEST_P(MetricsOnDevice, MeansOfUnevenBatches) {
  nn::Mean mean(on_);
  EXPECT_TRUE(std::isnan(mean.value()));
  double total = 0, weight = 0;
  for (int i = 0; i < 300; ++i) {  // beyond one fold
    const double value = 1 + 0.01 * i, w = 1 + i % 3;
    mean.add(f32({value}, Shape{}, *on_), w);
    eval_pending();  // as the step of a loop does
    total += w * static_cast<float>(value);
    weight += w;
  }
  EXPECT_NEAR(mean.value(), total / weight, 1e-5);
  EXPECT_NEAR(mean.perplexity(), std::exp(total / weight), 1e-3);
  mean.reset();
  EXPECT_TRUE(std::isnan(mean.value()));
}

// w(n) = d w + (1 - d) p with d = min(decay, (1 + n) / (10 + n)), in plain loops and inside compile().
TEST_P(MetricsOnDevice, AveragesFollowTheParameters) {
  Tensor p = f32({1, -2, 3}, Shape{3}, *on_).set_requires_grad();
  nn::SGD sgd({p}, 0.1);
  nn::ExponentialAverage average({p}, 0.4);
  const auto step = compile([&] {
    const Tensor loss = sum(p * p);
    backward(loss);
    sgd.update();
    average.update();
    sgd.zero_grad();
    return loss;
  });
  Values value = {1, -2, 3}, expected = value;
  for (int n = 1; n <= 8; ++n) {
    step();
    const double d = std::min(0.4, (1.0 + n) / (10.0 + n));
    for (size_t i = 0; i < 3; ++i) {
      value[i] -= 0.1 * 2 * value[i];
      expected[i] = d * expected[i] + (1 - d) * value[i];
    }
    expect_near(average.averages()[0].to_doubles(), expected, 1e-6);
  }
  const auto trained = p.to_bytes();
  {
    const nn::ExponentialAverage::Scope in_place(average);
    expect_near(p.to_doubles(), expected, 1e-6);
  }
  EXPECT_EQ(p.to_bytes(), trained);
  nn::ExponentialAverage::Scope ended(average);
  ended.end();
  EXPECT_EQ(p.to_bytes(), trained);
  nn::ExponentialAverage other({p}, 0.4);
  other.load_state_dict(average.state_dict());
  EXPECT_EQ(other.updates(), 8);
  EXPECT_EQ(other.averages()[0].to_bytes(), average.averages()[0].to_bytes());
}

TEST(Metrics, BadInput) {
  const Tensor three = f32({1, 2, 3}, Shape{3});
  const Tensor whole = Tensor::from_vector(std::vector<int32_t>{1, 2, 3}, Shape{3}, &reference());
  nn::ConfusionMatrix matrix(4, reference());
  expect_error<DTypeError>([&] { matrix.add(whole, three); }, {"[ConfusionMatrix]", "f32"});
  expect_error<ShapeError>([&] { matrix.add(unsqueeze(whole, 0), whole); }, {"[ConfusionMatrix]", "(1, 3)", "(3)"});
  expect_error<ValueError>([] { nn::ConfusionMatrix(0); }, {"classes", "0"});
  nn::TopK best(2, reference());
  expect_error<ShapeError>([&] { best.add(three, whole); }, {"[TopK]", "(N, classes)"});
  expect_error<ValueError>([&] { best.add(f32({1, 2, 3}, Shape{3, 1}), whole); }, {"[TopK]", "2", "1 classes"});
  nn::Mean mean(reference());
  expect_error<ShapeError>([&] { mean.add(three); }, {"[Mean]", "(3)"});
  expect_error<ValueError>([] { nn::ExponentialAverage({}, 1.0); }, {"[ExponentialAverage]", "decay"});
}

}  // namespace
}  // namespace heddle::tests
