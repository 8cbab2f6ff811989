// Text as a data set: windows of a stream of tokens.
#include "heddle/data/text.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <numeric>
#include <set>

#include "heddle/core/base/error.h"
#include "heddle/data/loader.h"
#include "tests/support/temporary_folder.h"

namespace heddle {
namespace {

using data::Random;
using test::contains;
using test::thrown_text;
using Tokens = std::vector<int32_t>;

data::TokenStream counting(int32_t size) {
  Tokens tokens(static_cast<size_t>(size));
  std::iota(tokens.begin(), tokens.end(), 0);
  return data::token_stream(std::move(tokens));
}

Tokens tokens_of(const data::Array& array) {
  const auto values = array.as<int32_t>();
  return {values.begin(), values.end()};
}

TEST(Windows, CoverTheStreamOnce) {
  const auto set = data::windows(counting(11), 3);
  ASSERT_EQ(set->size(), 3);  // 0..9 are read, 1..9 predicted, 10 is left over
  Random random(0, 0, 0);
  const data::Sample last = set->get(2, random);
  EXPECT_EQ(last[0].shape, (Shape{3}));
  EXPECT_EQ(tokens_of(last[0]), (Tokens{6, 7, 8}));
  EXPECT_EQ(tokens_of(last[1]), (Tokens{7, 8, 9}));
  EXPECT_EQ(data::windows(counting(10), 3)->size(), 3);
  EXPECT_EQ(data::windows(counting(9), 3)->size(), 2);
  EXPECT_EQ(data::windows(counting(9), 8)->size(), 1);
}

TEST(Windows, OverlapWithAStride) {
  const auto set = data::windows(counting(11), 3, 2);
  ASSERT_EQ(set->size(), 4);
  Random random(0, 0, 0);
  EXPECT_EQ(tokens_of(set->get(3, random)[1]), (Tokens{7, 8, 9}));
}

TEST(Windows, AtRandomReachEveryPlace) {
  const auto set = data::random_windows(counting(10), 3, 500);
  std::set<int32_t> starts;
  data::Loader loader(set, data::sequential(set->size()), {.batch = 500, .seed = 1});
  data::Sample batch;
  ASSERT_TRUE(loader.next(batch));
  EXPECT_EQ(batch[0].shape, (Shape{500, 3}));
  const Tokens x = tokens_of(batch[0]), y = tokens_of(batch[1]);
  for (size_t i = 0; i < x.size(); i += 3) starts.insert(x[i]);
  for (size_t i = 0; i < x.size(); ++i) ASSERT_EQ(y[i], x[i] + 1);
  EXPECT_EQ(starts, (std::set<int32_t>{0, 1, 2, 3, 4, 5, 6}));
}

TEST(Windows, RefuseABlockThatDoesNotFit) {
  EXPECT_TRUE(contains(thrown_text<ValueError>([] { data::windows(counting(8), 8); }),
                       "a block of 8 tokens needs 9 to predict, but there are 8"));
  EXPECT_THROW(data::windows(counting(8), 0), ValueError);
  EXPECT_THROW(data::windows(counting(8), 2, -1), ValueError);
  EXPECT_THROW(data::random_windows(counting(0), 1, 5), ValueError);
}

TEST(TokenStreams, AreSplitAndJoined) {
  const auto [train, test] = data::split_stream(counting(15), 0.9);
  EXPECT_EQ(train.size(), 13);
  EXPECT_EQ(test.tokens()[0], 13);
  EXPECT_EQ(data::split_stream(test, 0.5).second.tokens()[0], 14);
  EXPECT_THROW(data::split_stream(test, 1.1), ValueError);
  const std::vector<Tokens> documents = {{1, 2}, {}, {3}};
  const auto all = data::join_documents(documents, 9);
  EXPECT_EQ(*all.all, (Tokens{1, 2, 9, 9, 3, 9}));
  EXPECT_EQ(*data::join_documents(documents, {}).all, (Tokens{1, 2, 3}));
}

TEST(ReadText, FilesAndFolders) {
  const test::TemporaryFolder folder;
  std::filesystem::create_directories(folder / "b");
  std::ofstream(folder / "b/1.txt") << "two";
  std::ofstream(folder / "a.txt") << "one";
  std::ofstream(folder / "c.md") << "three";
  EXPECT_EQ(data::read_text(folder / "a.txt"), "one");
  EXPECT_EQ(data::read_text(folder.path()), "one\ntwo");
  EXPECT_EQ(data::read_text(folder.path(), {".md", ".txt"}), "one\ntwo\nthree");
  EXPECT_TRUE(contains(thrown_text<IoError>([&] { data::read_text(folder.path(), {".cpp"}); }),
                       "no file in this folder ends with .cpp"));
  std::ofstream(folder / "bad.txt") << "ab\xFF";
  EXPECT_TRUE(
      contains(thrown_text<IoError>([&] { data::read_text(folder.path()); }), "bad.txt: byte 2 (0xFF) is no UTF-8"));
  EXPECT_TRUE(contains(thrown_text<IoError>([&] { data::read_text(folder / "none.txt"); }), "no such file"));
}

}  // namespace
}  // namespace heddle
