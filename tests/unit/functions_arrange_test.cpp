// Arrangement, positions, bags, unpooling, modules of nn: bad calls, and what stored values from PyTorch cannot show.
#include <gtest/gtest.h>

#include <cmath>

#include "heddle/autograd/autograd.h"
#include "heddle/core/base/error.h"
#include "heddle/nn/nn.h"
#include "tests/support/reference_device.h"
#include "tests/support/value_test.h"
#include "tests/unit/reference_tensors.h"
#include "tests/unit/refused.h"

namespace heddle {
namespace {

using test::expect_refused;
using test::of;
using test::whole;
using tests::reference;

TEST(Arrangement, RefusesBadCalls) {
  const Tensor x = of({4, 3}), table = of({5, 2});
  const std::vector<Tensor> none, matrices{x}, boxes{of({2, 2, 2})};
  expect_refused({
      {[&] { select(x, 1, 3); }, "[select] index 3 is out of range for axis 1 of (4, 3)"},
      {[&] { narrow(x, 0, 2, 3); }, "[narrow] 3 elements from 2 on are not inside axis 0 of (4, 3)"},
      {[&] { tensor_split(x, 0); }, "[tensor_split] 0 parts; there must be 1 to 2^20"},
      {[&] { tensor_split(of({}), 1); }, "[tensor_split] needs at least 1 axis"},
      {[&] { column_stack(none); }, "[column_stack] at least one tensor is needed"},
      {[&] { block_diag(boxes); }, "[block_diag] the parts are matrices, vectors or scalars; got (2, 2, 2)"},
      {[&] { cartesian_prod(matrices); }, "[cartesian_prod] the lists are vectors; got (4, 3)"},
      {[&] { vander(x); }, "[vander] x is a vector; got (4, 3)"},
      {[&] { vander(of({3}), -2); }, "[vander] -2 columns"},
      {[&] { logspace(0, 1, 3, 0); }, "[logspace] base is 0"},
      {[&] { cumulative_trapezoid(of({})); }, "[cumulative_trapezoid] needs at least 1 axis"},
      {[&] {
         nanmedian(of({2, 0}));
       },
       "[nanmedian] axis 1 of (2, 0) has no elements"},
      {[&] { dist(x, of({4})); }, "[dist]"},
      {[&] {
         rotary_embedding(of({4, 3}));
       },
       "[rotary_embedding] 3 of x (4, 3) are turned; an even number up to the last axis is needed"},
      {[&] {
         rotary_embedding(of({5, 4}), {.positions = whole({3})});
       },
       "[rotary_embedding] positions (3) do not broadcast to (5)"},
      {[&] {
         rotary_embedding(of({5, 4}), {.base = -1});
       },
       "[rotary_embedding] base is -1"},
      {[&] { alibi_bias(0, 2, 2); }, "[alibi_bias] 0 heads"},
      {[&] { sinusoidal_positions(4, 3); }, "[sinusoidal_positions] 4 positions of width 3; the width must be even"},
      {[&] {
         embedding_bag(whole({3, 2}), whole({2}), table, BagMode::sum);
       },
       "[embedding_bag] indices are (3, 2), offsets (2), weight is (5, 2)"},
      {[&] { embedding_bag(whole({3}), whole({2}), table, BagMode::mean, of({3})); },
       "[embedding_bag] weights are for sums alone"},
      {[&] {
         max_unpool2d(of({1, 1, 2, 2}), whole({1, 1, 2, 3}), {2});
       },
       "[max_unpool2d] x is (1, 1, 2, 2), indices are (1, 1, 2, 3)"},
      {[&] {
         max_unpool3d(of({1, 1, 2, 2, 2}), whole({1, 1, 2, 2}), {2});
       },
       "[max_unpool3d] x is (1, 1, 2, 2, 2), indices are (1, 1, 2, 2)"},
      {[&] {
         max_unpool3d(of({2, 2, 2}), whole({2, 2, 2}), {2});
       },
       "[max_unpool3d] x is (2, 2, 2)"},
      {[&] {
         max_unpool1d(of({1, 1, 2}), whole({1, 1, 2}), {2}, {}, {0});
       },
       "[max_unpool1d] size 0 is not in [1, 2^31)"},
      {[&] {
         lp_pool3d(of({1, 1, 2, 2, 2}), -1, {2});
       },
       "[lp_pool3d] p is -1"},
      {[&] { alpha_dropout(x, 1); }, "[alpha_dropout] the probability is 1; it must be in [0, 1)"},
      {[&] { feature_alpha_dropout(of({3})); }, "[feature_alpha_dropout] x is (3); expected (N, C, ...)"},
      {[&] { rrelu(x, 0.5, 0.25); }, "[rrelu] low is 0.5, high 0.25"},
      {[&] { gamma(whole({3})); }, "[gamma] needs floating parameters, not i32"},
      {[&] { gamma(x, 0); }, "[gamma] the rate is 0"},
      {[&] { beta(whole({3}), of({3})); }, "[beta] needs floating parameters, not i32"},
      {[&] { beta(of({3}), of({4})); }, "[beta]"},
      {[&] { chi_squared(whole({3})); }, "[chi_squared] needs floating parameters, not i32"},
      {[&] { student_t(whole({3})); }, "[student_t] needs floating parameters, not i32"},
      {[&] { poisson(whole({3})); }, "[poisson] needs floating parameters, not i32"},
      {[&] { dirichlet(of({})); }, "[dirichlet] a scalar has no axis of parts"},
      {[&] { nn::Embedding(0, 3, {.device = reference()}); }, "[Embedding] 0 rows of 3"},
      {[&] { nn::Embedding(4, 3, {.padding = 4, .device = reference()}); },
       "[Embedding] padding is 4; it must be one of the 4 rows"},
      {[&] {
         nn::ReflectionPad({{1, 1}, {1, 1}, {1, 1}})(x);
       },
       "[ReflectionPad] 3 pairs of amounts for x (4, 3)"},
      {[&] {
         ctc_loss(of({4, 2, 3}), whole({2}), whole({2}), whole({2}));
       },
       "[ctc_loss] log probabilities are (4, 2, 3), targets (2), lengths (2) and (2); expected (T, N, C), (N, S), (N) "
       "and (N)"},
      {[&] {
         ctc_loss(of({4, 2, 3}), whole({2, 1}), whole({2}), whole({2}), {.blank = 3});
       },
       "[ctc_loss] blank is 3; it must be one of the 3 classes"},
      {[&] {
         nll_loss(of({4, 3}), whole({4}), NllOptions{.weight = of({4})});
       },
       "[nll_loss] weight is (4); expected (3)"},
      {[&] {
         nll_loss(of({4, 3, 2}), whole({4, 3}), NllOptions{});
       },
       "[nll_loss] log probabilities are (4, 3, 2), targets (4, 3); expected (N, C, ...) and (N, ...)"},
      {[&] { bce_with_logits(x, x, BceOptions{.weight = of({4})}); },
       "[bce_with_logits] weight (4) does not broadcast to the logits (4, 3)"},
  });
}

class Constants : public tests::ValueTest {};

TEST_P(Constants, OfPositions) {
  DeviceContext* d = &device();
  // 6 heads: the slopes of 4 (1/4, 1/16, 1/64, 1/256), then every other one of 8 (1/2, 1/8).
  std::vector<double> alibi;
  for (const double slope : {1.0 / 4, 1.0 / 16, 1.0 / 64, 1.0 / 256, 1.0 / 2, 1.0 / 8}) {
    for (const int distance : {1, 0, 1, 2, 1, 0}) alibi.push_back(-slope * distance);
  }
  expect_near(alibi_bias(6, 2, 3, d), alibi, 1e-6);
  std::vector<double> sines;
  for (int at = 0; at < 5; ++at) {
    for (int i = 0; i < 3; ++i) {
      const double angle = at * std::pow(10000.0, -2.0 * i / 6);
      sines.push_back(std::sin(angle));
      sines.push_back(std::cos(angle));
    }
  }
  expect_near(sinusoidal_positions(5, 6, 10000, d), sines, 2e-6);
  expect_near(logspace(0, 2, 3, 10, DType::f32, d), {1, 10, 100}, 2e-4);
}

HEDDLE_VALUE_TESTS(Constants);

// Modules are their functions.
TEST(Modules, AreTheirFunctions) {
  std::vector<float> v(2 * 3 * 8 * 8);
  for (size_t i = 0; i < v.size(); ++i) v[i] = std::sin(static_cast<float>(i));
  const Tensor x = Tensor::from_vector(v, Shape{2, 3, 8, 8}, &reference());
  const auto same = [](const Tensor& a, const Tensor& b) {
    EXPECT_EQ(a.shape(), b.shape());
    EXPECT_EQ(a.to_doubles(), b.to_doubles());
  };
  same(nn::MaxPool2d({2})(x), max_pool2d(x, {2}));
  same(nn::AvgPool2d({3}, {.stride = {2}})(x), avg_pool2d(x, {3}, {.stride = {2}}));
  same(nn::LPPool2d(2, {2})(x), lp_pool2d(x, 2, {2}));
  same(nn::AdaptiveAvgPool2d({3})(x), adaptive_avg_pool2d(x, {3}));
  same(nn::ReflectionPad({{1, 2}})(x), pad(x, {{0, 0}, {0, 0}, {0, 0}, {1, 2}}, PadMode::reflect));
  same(nn::Pad({{1, 0}, {0, 2}}, PadMode::constant, 7)(x), pad(x, {{0, 0}, {0, 0}, {1, 0}, {0, 2}}, 7));
  same(nn::Upsample({.scale = {2}})(x), interpolate(x, {.scale = {2}}));
  same(nn::PixelUnshuffle(2)(x), pixel_unshuffle(x, 2));
  same(nn::Unflatten(1, {3, 1})(x), reshape(x, {2, 3, 1, 8, 8}));
  same(nn::LocalResponseNorm(3)(x), local_response_norm(x, 3));
  same(nn::LeakyReLU(0.2)(x), leaky_relu(x, 0.2));
  same(nn::Mish()(x), mish(x));
  same(nn::Identity()(x), x);
  same(nn::PReLU(3, {.first = 0.5, .device = reference()})(x), leaky_relu(x, 0.5));
  nn::Sequential net{nn::Hardtanh(-0.5, 0.5), nn::GLU(3), nn::FeatureDropout(0.5)};
  net.eval();
  same(net(x), glu(hardtanh(x, -0.5, 0.5), 3));
  const Tensor y = reshape(x, {6, 64}), t = Tensor::from_vector<int>({1, 0, 63, 7, 9, 2}, {6}, &reference());
  same(nn::CrossEntropyLoss({.label_smoothing = 0.1})(y, t), cross_entropy(y, t, {.label_smoothing = 0.1}));
  same(nn::HuberLoss(0.3)(y, y * 2), huber_loss(y, y * 2, 0.3));
  same(nn::TripletMarginLoss()(y, y * 2, y + 1), triplet_margin_loss(y, y * 2, y + 1));
}

TEST(Modules, EmbeddingLeavesItsPaddingAlone) {
  Generator generator{3, 0};
  nn::Embedding table(4, 2, {.padding = 1, .device = reference(), .generator = &generator});
  const Tensor rows = table(Tensor::from_vector<int>({1, 3, 1, 3}, {2, 2}, &reference()));
  EXPECT_EQ(rows.shape(), (Shape{2, 2, 2}));
  const std::vector<double> v = rows.to_doubles();
  EXPECT_EQ(v[0], 0);
  EXPECT_NE(v[2], 0);
  backward(sum(rows));
  EXPECT_EQ(table.weight.grad().to_doubles(), (std::vector<double>{0, 0, 0, 0, 0, 0, 2, 2}));
}

}  // namespace
}  // namespace heddle
