// Pairs of answers as rows: tokens, targets, what is cut and what is left out.
#include "heddle/data/preference_rows.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "heddle/core/base/error.h"
#include "tests/support/expect_error.h"

namespace heddle::tests {
namespace {

using data::ChatTokens;

// The question's tokens are not learned.
ChatTokens answer(std::vector<int32_t> tokens, size_t question) {
  std::vector<uint8_t> trained(tokens.size(), 1);
  std::fill(trained.begin(), trained.begin() + static_cast<std::ptrdiff_t>(question), uint8_t{0});
  return {std::move(tokens), std::move(trained)};
}

std::vector<int32_t> integers(const data::Array& array) {
  const auto* first = reinterpret_cast<const int32_t*>(array.bytes.data());
  return {first, first + array.bytes.size() / sizeof(int32_t)};
}

TEST(PreferenceRows, AreTheChosenAnswerAndTheOther) {
  const auto rows = data::preference_rows({answer({5, 6, 7, 8}, 2)}, {answer({5, 6, 9}, 2)}, {.length = 5});
  EXPECT_EQ(rows.pairs, 1);
  EXPECT_EQ(rows.trained, 3);
  EXPECT_EQ(rows.cut + rows.dropped, 0);
  data::Random random(0, 0, 0);
  const data::Sample sample = rows.dataset->get(0, random);
  ASSERT_EQ(sample.size(), 2u);
  EXPECT_EQ(sample[0].shape, Shape({2, 5}));
  EXPECT_EQ(integers(sample[0]), (std::vector<int32_t>{5, 6, 7, 8, 0, 5, 6, 9, 0, 0}));
  EXPECT_EQ(integers(sample[1]), (std::vector<int32_t>{-100, 7, 8, -100, -100, -100, 9, -100, -100, -100}));
}

TEST(PreferenceRows, LongPairsAreCutOrLeftOut) {
  const std::vector<ChatTokens> chosen{answer({1, 2, 3, 4}, 1), answer({1, 2, 3, 4, 5}, 1),
                                       answer({1, 2, 3, 4, 5, 6}, 5), answer({1, 2, 3, 4, 5, 6}, 1)},
      rejected{answer({1, 7, 3}, 1), answer({1, 7}, 1), answer({1, 2, 3, 7}, 3), answer({1, 2, 3, 4, 5, 7}, 1)};
  const auto cut = data::preference_rows(chosen, rejected, {.length = 4});
  EXPECT_EQ(cut.pairs, 2);  // the third's chosen answer begins behind the row's end, the fourth differs there
  EXPECT_EQ(cut.cut, 1);
  EXPECT_EQ(cut.dropped, 2);
  const auto dropped = data::preference_rows(chosen, rejected, {.length = 4, .drop_long = true});
  EXPECT_EQ(dropped.pairs, 1);
  EXPECT_EQ(dropped.dropped, 3);
}

TEST(PreferenceRows, RefuseWhatDoesNotFit) {
  const std::vector<ChatTokens> one{answer({1, 2, 3}, 2)};
  expect_error<ValueError>([&] { data::preference_rows(one, {}, {}); }, {"1 chosen and 0 rejected"});
  expect_error<ValueError>([&] { data::preference_rows(one, one, {}); }, {"none of 1 pairs"});
  expect_error<ValueError>([&] { data::preference_rows(one, one, {.length = 1}); }, {"expected 2 to"});
}

}  // namespace
}  // namespace heddle::tests
