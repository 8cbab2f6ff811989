// Losses, pooling and resampling: bad calls, and what stored values from PyTorch cannot show.
#include <gtest/gtest.h>

#include <cmath>

#include "heddle/core/base/error.h"
#include "heddle/core/functions/functions.h"
#include "heddle/core/graph/node.h"
#include "tests/support/reference_device.h"
#include "tests/unit/reference_tensors.h"
#include "tests/unit/refused.h"

namespace heddle {
namespace {

using test::expect_refused;
using test::of;
using test::whole;
using tests::reference;

TEST(LossesPoolsImages, BadCallsSayWhy) {
  const Tensor x = of({2, 3, 6, 6}), flat = of({4, 5}), target = whole({4});
  expect_refused({
      {[&] {
         binary_cross_entropy(flat, of({4, 1}));
       },
       "[binary_cross_entropy] probabilities is (4, 5), target is (4, 1); they must be the same"},
      {[&] { smooth_l1_loss(flat, flat, -1); }, "[smooth_l1_loss] beta is -1; it must be at least 0"},
      {[&] { cross_entropy(flat, target, {.label_smoothing = 2}); },
       "[cross_entropy] label_smoothing is 2; it must be between 0 and 1"},
      {[&] { cross_entropy(flat, target, {.weight = of({4})}); }, "[cross_entropy] weight is (4) f32; expected (5)"},
      {[&] { cross_entropy(flat, whole({5}), CrossEntropyOptions{}); },
       "[cross_entropy] logits are (4, 5), targets (5); expected (N, C, ...)"},
      {[&] { cross_entropy(flat, of({4}, DType::u8), CrossEntropyOptions{}); },
       "[cross_entropy] targets must be i32 or i64 class numbers, not u8"},
      {[&] { cross_entropy(flat, flat, {.ignore_index = 0}); }, "[cross_entropy] ignore_index is for class numbers"},
      {[&] { margin_ranking_loss(flat, flat, of({4})); }, "[margin_ranking_loss] a is (4, 5), target is (4)"},
      {[&] { cosine_embedding_loss(flat, flat, flat); },
       "[cosine_embedding_loss] a and b are (4, 5), target is (4, 5); expected (N, D) and (N)"},
      {[&] {
         triplet_margin_loss(flat, flat, of({4, 1}));
       },
       "[triplet_margin_loss] anchor is (4, 5), negative is (4, 1)"},
      {[&] { multi_margin_loss(flat, target, 3); }, "[multi_margin_loss] p is 3; it must be 1 or 2"},
      {[&] { multi_margin_loss(flat, of({4})); },
       "[multi_margin_loss] targets must be i32 or i64 class numbers, not f32"},
      {[&] { multilabel_margin_loss(flat, target); }, "[multilabel_margin_loss] input is (4, 5), targets is (4)"},
      {[&] {
         gaussian_nll_loss(flat, flat, of({2, 4, 5}));
       },
       "[gaussian_nll_loss] variance is (2, 4, 5), input is (4, 5)"},
      {[&] { sigmoid_focal_loss(flat, flat, 0.25, -1); }, "[sigmoid_focal_loss] gamma is -1; it must be at least 0"},
      {[&] { dice_loss(of({4}), of({4})); }, "[dice_loss] probabilities are (4); expected (N, ...)"},
      {[&] { max_pool2d(flat, {2}); },
       "[max_pool2d] x is (4, 5); expected 4 dimensions (N, C, spatial...), or 3 without N"},
      {[&] {
         max_pool2d(x, {2, 2, 2});
       },
       "[max_pool2d] kernel has 3 entries (2, 2, 2); expected one, or 2"},
      {[&] { avg_pool2d(x, {}); }, "[avg_pool2d] the kernel has no size"},
      {[&] { avg_pool2d(x, {0}); }, "[avg_pool2d] kernel 0 is not in [1, 2^31)"},
      {[&] { max_pool2d(x, {2}, {.padding = {2}}); },
       "[max_pool2d] padding 2 is more than half of the window's 2 elements"},
      {[&] { max_pool2d(x, {7}); },
       "[max_pool2d] axis 2: the window covers 7 (kernel 7, dilation 1), the padded input only 6"},
      {[&] { avg_pool2d(x, {2}, {.dilation = {2}}); }, "[avg_pool2d] dilation is for maxima only"},
      {[&] { lp_pool2d(x, 0, {2}); }, "[lp_pool2d] p is 0; it must be positive and finite"},
      {[&] { adaptive_avg_pool2d(x, {0}); }, "[adaptive_avg_pool2d] size 0 is not in [1, 2^31)"},
      {[&] { global_max_pool(flat); }, "[global_max_pool] x is (4, 5); expected (N, C, spatial...)"},
      {[&] { interpolate(x, {}); }, "[interpolate] give either size or scale"},
      {[&] {
         interpolate(x, {.size = {2, 2, 2}});
       },
       "[interpolate] size has 3 entries; expected one, or 2"},
      {[&] { interpolate(x, {.scale = {0.1}}); }, "[interpolate] axis 2: from 6 to 0 elements"},
      {[&] { interpolate(x, {.size = {3}, .align_corners = true}); },
       "[interpolate] align_corners is for linear and cubic"},
      {[&] {
         grid_sample(x, of({1, 3, 3, 2}));
       },
       "[grid_sample] x is (2, 3, 6, 6), grid is (1, 3, 3, 2)"},
      {[&] {
         affine_grid(of({2, 3, 3}), {2, 1, 4, 4});
       },
       "[affine_grid] theta is (2, 3, 3); expected (N, 2, 3)"},
      {[&] { local_response_norm(x, 0); }, "[local_response_norm] size is 0; it must be at least 1"},
      {[&] { feature_dropout(x, 1.5); }, "[feature_dropout] the probability is 1.5; it must be between 0 and 1"},
      {[&] { embedding_bag(target, flat); },
       "[embedding_bag] indices are (4), weight is (4, 5); expected (B, L) and (rows, D)"},
  });
}

TEST(LossesPoolsImages, FeatureDropoutDropsWholeChannels) {
  Generator generator{7, 0};
  const std::vector<double> y = feature_dropout(of({16, 32, 3, 5}), 0.25, true, &generator).to_doubles();
  int dropped = 0;
  for (size_t channel = 0; channel < 16 * 32; ++channel) {
    const double first = y[channel * 15];
    EXPECT_TRUE(first == 0 || std::abs(first - 4.0 / 3) < 1e-6) << first;
    for (size_t i = 1; i < 15; ++i) EXPECT_EQ(y[channel * 15 + i], first);
    dropped += first == 0;
  }
  EXPECT_NEAR(dropped, 128, 40);  // four standard deviations
  const Tensor x = of({2, 2, 2});
  EXPECT_EQ(feature_dropout(x, 0.5, false).node(), x.node());
  EXPECT_EQ(sum(feature_dropout(x, 1)).item(), 0);
}

TEST(LossesPoolsImages, NaNAndEmptyBagsAndIgnoredTargets) {
  const Tensor x = Tensor::from_vector<float>({1, NAN, 3, 2}, {1, 1, 4}, &reference());
  const std::vector<double> y = max_pool1d(x, {2}, {.stride = {1}}).to_doubles();
  EXPECT_TRUE(std::isnan(y[0]) && std::isnan(y[1]));
  EXPECT_EQ(y[2], 3);
  EXPECT_EQ(embedding_bag(whole({2, 0}), of({3, 4})).to_doubles(), std::vector<double>(8, 0));
  const Tensor none = cross_entropy(of({2, 3}), whole({2}), {.ignore_index = 1});
  EXPECT_TRUE(std::isnan(none.item()));
  EXPECT_EQ(max_pool2d(of({0, 3, 4, 4}), {2}).shape(), (Shape{0, 3, 2, 2}));
}

}  // namespace
}  // namespace heddle
