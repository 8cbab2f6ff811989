// Padding, packing, mixup and cutmix; preprocessing as text.
#include "heddle/data/collate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "heddle/core/base/error.h"
#include "heddle/core/device/context.h"
#include "heddle/core/functions/functions.h"
#include "heddle/data/preprocess.h"
#include "tests/support/device_test.h"
#include "tests/support/temporary_folder.h"

namespace heddle {
namespace {

using data::Array;
using data::Random;
using data::Sample;
using test::contains;
using test::thrown_text;
using Tokens = std::vector<int32_t>;

Sample sequence(const Tokens& tokens) { return {Array::of(tokens, Shape{static_cast<int64_t>(tokens.size())})}; }
Tokens tokens_of(const Array& a) {
  const auto values = a.as<int32_t>();
  return {values.begin(), values.end()};
}

TEST(Padded, ToAMultipleOfTheLongest) {
  std::vector<Sample> samples;
  for (const int32_t n : {3, 0, 5}) {
    Tokens tokens(static_cast<size_t>(n));
    std::iota(tokens.begin(), tokens.end(), 1);
    samples.push_back({Array::of(tokens, Shape{n}),
                       Array::of(std::vector<float>(static_cast<size_t>(2 * n), 1.5f), Shape{n, 2}), Array::scalar(n)});
  }
  const Sample batch = data::padded({.multiple = 4, .values = {-1, 0.5}})(samples);
  ASSERT_EQ(batch.size(), 4u);
  EXPECT_EQ(batch[0].shape, (Shape{3, 8}));
  EXPECT_EQ(tokens_of(batch[0]),
            (Tokens{1, 2, 3, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 1, 2, 3, 4, 5, -1, -1, -1}));
  EXPECT_EQ(batch[1].shape, (Shape{3, 8, 2}));
  EXPECT_EQ(batch[1].as<float>()[6], 0.5f);
  EXPECT_EQ(tokens_of(batch[2]), (Tokens{3, 0, 5}));
  EXPECT_EQ(tokens_of(batch[3]), (Tokens{3, 0, 5}));
  EXPECT_THROW(data::padded({.multiple = 0}), ValueError);
  EXPECT_THROW(data::padded()({}), ShapeError);
  EXPECT_THROW(data::padded()(std::vector<Sample>{{Array::scalar(1)}}), ShapeError);
}

TEST(Packed, EachInTheFirstRowWithRoom) {
  const std::vector<Sample> samples = {sequence({1, 2}), sequence({3, 4, 5, 6}), sequence({7, 8, 9}), sequence({})};
  const Sample batch = data::packed(5, -1)(samples);
  ASSERT_EQ(batch[0].shape, (Shape{2, 5}));
  EXPECT_EQ(tokens_of(batch[0]), (Tokens{3, 4, 5, 6, -1, 7, 8, 9, 1, 2}));
  EXPECT_EQ(tokens_of(batch[1]), (Tokens{1, 1, 1, 1, 0, 1, 1, 1, 2, 2}));
  EXPECT_EQ(tokens_of(batch[2]), (Tokens{0, 1, 2, 3, 0, 0, 1, 2, 0, 1}));
  EXPECT_TRUE(contains(thrown_text<ValueError>([&] { data::packed(3)(samples); }),
                       "example 1 of the batch has 4 tokens, a row has 3"));
  EXPECT_THROW(data::packed(0), ValueError);
}

TEST(Mixtures, AreBetaDistributed) {
  for (const double alpha : {0.2, 1.0, 3.0}) {
    double sum = 0, squares = 0;
    constexpr int draws = 4000;
    for (int i = 0; i < draws; ++i) {
      Random random(7, 0, static_cast<uint64_t>(i));
      const double share = data::draw_mixup(alpha, random).share;
      ASSERT_TRUE(share >= 0 && share <= 1);
      sum += share;
      squares += share * share;
    }
    const double mean = sum / draws, variance = squares / draws - mean * mean;
    EXPECT_NEAR(mean, 0.5, 0.03);
    EXPECT_NEAR(variance, 0.25 / (2 * alpha + 1), 0.01);  // of Beta(alpha, alpha)
  }
  Random random(0, 0, 0), same(0, 0, 0);
  const Sample sample = data::append_mixup_share(0.3)({Array::scalar(7)}, random);
  ASSERT_EQ(sample.size(), 2u);
  EXPECT_EQ(sample[1].as<float>()[0], data::draw_mixup(0.3, same).share);
  EXPECT_THROW(data::append_mixup_share(0), ValueError);
  EXPECT_THROW(data::draw_mixup(0, random), ValueError);
  EXPECT_THROW(data::draw_mixup(std::nan(""), random), ValueError);
}

TEST(Mixtures, CutmixKeepsTheShareThatItSays) {
  for (uint64_t i = 0; i < 200; ++i) {
    Random random(3, 0, i);
    const data::Mixture m = data::draw_cutmix(1, 9, 14, random);
    ASSERT_TRUE(0 <= m.top && m.top <= m.bottom && m.bottom <= 9 && 0 <= m.left && m.left <= m.right && m.right <= 14);
    EXPECT_NEAR(m.share, 1 - (m.bottom - m.top) * (m.right - m.left) / 126.0, 1e-6);
  }
}

class MixTest : public testing::TestWithParam<std::string> {};

TEST_P(MixTest, MixesWithTheOpposite) {
  DeviceContext& d = device(GetParam());
  std::vector<float> pixels(3 * 2 * 2 * 3);
  std::iota(pixels.begin(), pixels.end(), 0.0f);
  const Tensor images = Tensor::from_vector(pixels, {3, 2, 2, 3}, &d),
               labels = Tensor::from_vector<int32_t>({0, 1, 3}, {3}, &d);
  const data::Mixed up = data::mix(images, labels, 4, {.share = 0.75f});
  const std::vector<float> blended = up.images.to_vector<float>();
  for (size_t i = 0; i < pixels.size(); ++i)
    EXPECT_FLOAT_EQ(blended[i], 0.75f * pixels[i] + 0.25f * pixels[(2 - i / 12) * 12 + i % 12]);
  EXPECT_EQ(up.targets.to_vector<float>(), (std::vector<float>{0.75f, 0, 0, 0.25f, 0, 1, 0, 0, 0.25f, 0, 0, 0.75f}));

  const data::Mixed cut = data::mix(images, labels, 4, {.share = 0.5f, .top = 1, .bottom = 2, .left = 0, .right = 2});
  const std::vector<float> mixed = cut.images.to_vector<float>();
  for (size_t i = 0; i < pixels.size(); ++i) {
    const bool inside = i % 6 / 3 == 1 && i % 3 < 2;
    EXPECT_EQ(mixed[i], inside ? pixels[(2 - i / 12) * 12 + i % 12] : pixels[i]) << i;
  }
  EXPECT_THROW(data::mix(images, Tensor::from_vector<int32_t>({0}, {1}, &d), 4, {}), ShapeError);

  const std::vector<float> shares = {0.75f, 0.5f, 1};
  const data::Mixed each = data::mixup(images, labels, 4, Tensor::from_vector(shares, {3}, &d));
  const std::vector<float> own = each.images.to_vector<float>();
  for (size_t i = 0; i < pixels.size(); ++i)
    EXPECT_FLOAT_EQ(own[i], shares[i / 12] * pixels[i] + (1 - shares[i / 12]) * pixels[(2 - i / 12) * 12 + i % 12]);
  EXPECT_EQ(each.targets.to_vector<float>(), (std::vector<float>{0.75f, 0, 0, 0.25f, 0, 1, 0, 0, 0, 0, 0, 1}));
  EXPECT_THROW(data::mixup(images, labels, 4, Tensor::from_vector<float>({0.5f, 0.5f}, {2}, &d)), ShapeError);
}

INSTANTIATE_TEST_SUITE_P(Devices, MixTest, testing::ValuesIn(test::value_devices()), tests::device_test_name);

TEST(Preprocessing, ComesBackFromText) {
  data::Preprocessing p;
  p.transforms = {"resize 8 8"};
  p.statistics = {{0.5}, {0.25}};
  p.classes = {"cat", "dög"};
  p.tokenizer = std::make_shared<data::CharTokenizer>("abc");
  const data::Preprocessing back = data::Preprocessing::parse(p.str());
  EXPECT_EQ(back.str(), p.str());
  EXPECT_EQ(back.tokenizer->encode("cab"), (Tokens{2, 0, 1}));
  Random random(0, 0, 0);
  Sample sample = {Array::of(std::vector<uint8_t>(16, 255), Shape{1, 4, 4})};
  for (const auto& transform : back.make_transforms()) sample = transform(std::move(sample), random);
  EXPECT_EQ(sample[0].shape, (Shape{1, 8, 8}));
  EXPECT_EQ(sample[0].as<float>()[0], 2);  // (1 - 0.5) / 0.25
}

TEST(Preprocessing, TextThatDoesNotFit) {
  EXPECT_TRUE(contains(thrown_text<IoError>([] { data::Preprocessing::parse("{}", "m.safetensors"); }),
                       "[preprocessing] m.safetensors: not what preprocessing is stored as"));
  EXPECT_THROW(data::Preprocessing::parse(R"({"transforms": ["fly 3"], "mean": [], "deviation": [], "classes": []})"),
               IoError);
  EXPECT_THROW(data::Preprocessing::parse(R"({"transforms": [], "mean": [1], "deviation": [], "classes": []})"),
               IoError);
  EXPECT_THROW(data::Preprocessing::parse("\xFF"), IoError);
}

}  // namespace
}  // namespace heddle
