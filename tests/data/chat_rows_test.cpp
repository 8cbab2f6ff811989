// Rows of chats: packing, targets within an example, what is cut and dropped, against a count by hand and by chance.
#include "heddle/data/chat_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "heddle/core/base/error.h"
#include "heddle/data/random.h"
#include "tests/support/expect_error.h"

namespace heddle::tests {
namespace {

using data::ChatRows;
using data::ChatTokens;
using Numbers = std::vector<int32_t>;

Numbers row_of(const ChatRows& rows, int64_t row, size_t which) {
  data::Random random(1, 0, 0);
  const data::Sample sample = rows.dataset->get(row, random);
  EXPECT_EQ(sample.size(), 3u);
  const auto numbers = sample[which].as<int32_t>();
  return {numbers.begin(), numbers.end()};
}

// Tokens from `first`, of which the last `trained` ones are.
ChatTokens chat(int32_t first, size_t size, size_t trained) {
  ChatTokens made;
  for (size_t i = 0; i < size; ++i) {
    made.tokens.push_back(first + static_cast<int32_t>(i));
    made.trained.push_back(i + trained >= size);
  }
  return made;
}

TEST(ChatRows, ShortExamplesShareARow) {
  const ChatRows rows = data::chat_rows({chat(10, 3, 1), chat(20, 5, 2), chat(30, 2, 1)}, {.length = 8, .padding = 7});
  ASSERT_EQ(rows.rows, 2);
  EXPECT_EQ(row_of(rows, 0, 0), (Numbers{20, 21, 22, 23, 24, 10, 11, 12}));
  EXPECT_EQ(row_of(rows, 0, 1), (Numbers{-100, -100, 23, 24, -100, -100, 12, -100}));
  EXPECT_EQ(row_of(rows, 0, 2), (Numbers{0, 0, 0, 0, 0, 1, 1, 1}));
  EXPECT_EQ(row_of(rows, 1, 0), (Numbers{30, 31, 7, 7, 7, 7, 7, 7}));
  EXPECT_EQ(row_of(rows, 1, 1), (Numbers{31, -100, -100, -100, -100, -100, -100, -100}));
  EXPECT_EQ(row_of(rows, 1, 2), (Numbers{0, 0, -1, -1, -1, -1, -1, -1}));
  EXPECT_EQ(rows.dataset->size(), 2);
  EXPECT_EQ(rows.examples, 3);
  EXPECT_EQ(rows.tokens, 10);
  EXPECT_EQ(rows.trained, 4);
  EXPECT_EQ(rows.cut + rows.dropped, 0);
  const ChatRows apart = data::chat_rows({chat(10, 3, 1), chat(20, 5, 2)}, {.length = 8, .pack = false});
  EXPECT_EQ(apart.rows, 2);
  EXPECT_EQ(row_of(apart, 0, 0), (Numbers{10, 11, 12, 0, 0, 0, 0, 0}));
}

TEST(ChatRows, LongExamplesAreCutOrDropped) {
  const std::vector<ChatTokens> examples = {chat(0, 9, 6), chat(20, 9, 1), chat(40, 5, 2), chat(60, 4, 0)};
  const ChatRows cut = data::chat_rows(examples, {.length = 5});
  EXPECT_EQ(cut.rows, 2);
  EXPECT_EQ(cut.examples, 2);
  EXPECT_EQ(cut.cut, 1);      // the first
  EXPECT_EQ(cut.dropped, 2);  // nothing to learn in what is left of the second, nor in the last
  EXPECT_EQ(row_of(cut, 0, 0), (Numbers{0, 1, 2, 3, 4}));
  EXPECT_EQ(row_of(cut, 0, 1), (Numbers{-100, -100, 3, 4, 5}));
  const ChatRows dropped = data::chat_rows(examples, {.length = 5, .drop_long = true});
  EXPECT_EQ(dropped.rows, 1);
  EXPECT_EQ(dropped.cut, 0);
  EXPECT_EQ(dropped.dropped, 3);
}

TEST(ChatRows, LongTextGoesOnInTheNextRow) {
  ChatTokens text = chat(0, 11, 11);
  text.is_text = true;
  for (const bool drop_long : {false, true}) {
    const ChatRows rows = data::chat_rows({text}, {.length = 5, .pack = false, .drop_long = drop_long});
    EXPECT_EQ(rows.rows, 2);  // the eleventh token has nothing behind it
    EXPECT_EQ(row_of(rows, 0, 1), (Numbers{1, 2, 3, 4, 5}));
    EXPECT_EQ(row_of(rows, 1, 1), (Numbers{6, 7, 8, 9, 10}));
    EXPECT_EQ(row_of(rows, 1, 2), (Numbers{0, 0, 0, 0, 0}));
    EXPECT_EQ(rows.cut + rows.dropped, 0);
    EXPECT_EQ(rows.examples, 1);
    EXPECT_EQ(rows.trained, 10);
  }
}

// Each example is in one row, whole and in order, and no row could take another one.
TEST(ChatRows, PackingLosesAndMixesNothing) {
  data::Random random(3, 0, 0);
  std::vector<ChatTokens> examples;
  std::multiset<Numbers> wanted;
  for (int32_t i = 0; i < 300; ++i) {
    examples.push_back(chat(i * 100, static_cast<size_t>(2 + random.integer(36)), 1));
    wanted.insert(examples.back().tokens);
  }
  constexpr int64_t length = 37;
  const ChatRows rows = data::chat_rows(examples, {.length = length, .padding = 1});
  std::multiset<Numbers> found;
  std::vector<int64_t> used;
  for (int64_t row = 0; row < rows.rows; ++row) {
    const Numbers tokens = row_of(rows, row, 0), targets = row_of(rows, row, 1), segments = row_of(rows, row, 2);
    std::vector<Numbers> parts;
    for (size_t i = 0; i < tokens.size(); ++i) {
      if (segments[i] < 0) continue;
      if (static_cast<size_t>(segments[i]) == parts.size()) parts.emplace_back();
      ASSERT_EQ(static_cast<size_t>(segments[i]) + 1, parts.size());
      parts.back().push_back(tokens[i]);
      const bool ends = i + 2 == tokens.size() || (i + 2 < tokens.size() && segments[i + 2] != segments[i]);
      const bool is_last_but_one = i + 1 < tokens.size() && segments[i + 1] == segments[i] && ends;
      EXPECT_EQ(targets[i], is_last_but_one ? tokens[i + 1] : -100);
    }
    found.insert(parts.begin(), parts.end());
    used.push_back(length - std::count(segments.begin(), segments.end(), -1));
  }
  EXPECT_EQ(found, wanted);
  std::sort(used.begin(), used.end());
  ASSERT_GT(used.size(), 1u);
  EXPECT_GT(used[0] + used[1], length);
  EXPECT_LE(rows.rows, (rows.tokens * 11 / 9 + length - 1) / length + 1);  // Johnson's bound
}

TEST(ChatRows, RefusesWhatMakesNoRow) {
  expect_error<ValueError>([] { data::chat_rows({chat(0, 3, 1)}, {.length = 1}); }, {"[chat_rows]", "expected 2"});
  expect_error<ValueError>([] { data::chat_rows({chat(0, 3, 1)}, {.padding = -1}); }, {"padding"});
  expect_error<ValueError>([] { data::chat_rows({}, {}); }, {"none of 0 examples"});
  expect_error<ValueError>([] { data::chat_rows({chat(0, 9, 1)}, {.length = 4}); }, {"none of 1 examples"});
  ChatTokens odd = chat(0, 3, 1);
  odd.trained.pop_back();
  expect_error<ValueError>([&] { data::chat_rows({odd}, {}); }, {"3 tokens and 2 marks"});
}

}  // namespace
}  // namespace heddle::tests
