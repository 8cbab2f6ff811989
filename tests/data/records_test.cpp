// Packed records: what goes in comes out, and no flipped bit or missing byte goes unnoticed.
#include "heddle/data/records.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <numeric>

#include "heddle/core/base/error.h"
#include "heddle/data/loader.h"
#include "tests/support/temporary_folder.h"

namespace heddle {
namespace {

using data::Array;
using data::Random;
using data::Sample;
using test::contains;
using test::thrown_text;

Sample example(int32_t i) {
  std::vector<uint8_t> pixels(static_cast<size_t>(i % 5));
  std::iota(pixels.begin(), pixels.end(), static_cast<uint8_t>(i));
  return {Array::of(pixels, Shape{1, i % 5}), Array::scalar(i), Array::of(std::vector<double>{i / 3.0}, Shape{1})};
}

std::string packed(const test::TemporaryFolder& folder, int count, const std::string& metadata = "{\"mean\": 0.5}") {
  const std::string path = folder / "set.rec";
  const auto set = data::generated(count, [](int64_t i, Random&) { return example(static_cast<int32_t>(i)); });
  EXPECT_EQ(data::pack(*set, path, metadata), count);
  return path;
}

void read_all(const std::string& path) {
  const data::RecordFile file(path);
  Random random(0, 0, 0);
  for (int64_t i = 0; i < file.size(); ++i) file.get(i, random);
}

TEST(Records, ComeBackAsTheyWere) {
  const test::TemporaryFolder folder;
  const auto file = std::make_shared<data::RecordFile>(packed(folder, 23));
  EXPECT_EQ(folder.names(), std::vector<std::string>{"set.rec"});
  EXPECT_EQ(file->metadata(), "{\"mean\": 0.5}");
  ASSERT_EQ(file->size(), 23);
  Random random(0, 0, 0);
  for (const int32_t i : {0, 7, 22, 4}) {
    const Sample found = file->get(i, random), expected = example(i);
    ASSERT_EQ(found.size(), expected.size());
    for (size_t k = 0; k < found.size(); ++k) {
      EXPECT_EQ(found[k].dtype, expected[k].dtype);
      EXPECT_EQ(found[k].shape, expected[k].shape);
      EXPECT_TRUE(found[k].bytes == expected[k].bytes);
    }
  }
  EXPECT_TRUE(contains(thrown_text<ValueError>([&] { file->get(23, random); }), "record 23 among 23"));
  data::Loader loader(data::transformed(file, {[](Sample s, Random&) { return Sample{s[1]}; }}), data::shuffled(23),
                      {.batch = 23, .workers = 2});
  Sample batch;
  ASSERT_TRUE(loader.next(batch));
  const auto numbers = batch[0].as<int32_t>();
  EXPECT_EQ(std::accumulate(numbers.begin(), numbers.end(), 0), 253);
}

TEST(Records, MayBeNone) {
  const test::TemporaryFolder folder;
  EXPECT_EQ(data::RecordFile(packed(folder, 0, "")).size(), 0);
}

TEST(Records, EveryFlippedBitIsFound) {
  const test::TemporaryFolder folder;
  const std::string path = packed(folder, 4);
  const std::vector<uint8_t> good = test::read_bytes(path);
  for (size_t at = 0; at < good.size(); ++at) {
    std::vector<uint8_t> bad = good;
    bad[at] ^= static_cast<uint8_t>(1u << at % 8);
    test::write_bytes(path, bad);
    EXPECT_THROW(read_all(path), IoError) << "byte " << at << " of " << good.size();
  }
}

// Also a flip in the checksum of a record that nobody reads.
TEST(Records, AFlippedBitOfTheIndexIsFoundWhenTheFileIsOpened) {
  const test::TemporaryFolder folder;
  constexpr size_t records = 4, entry_bytes = 20, end_bytes = 52;
  const std::string path = packed(folder, records);
  const std::vector<uint8_t> good = test::read_bytes(path);
  for (size_t at = good.size() - end_bytes - records * entry_bytes; at < good.size(); ++at) {
    std::vector<uint8_t> bad = good;
    bad[at] ^= static_cast<uint8_t>(1u << at % 8);
    test::write_bytes(path, bad);
    EXPECT_THROW(data::RecordFile{path}, IoError) << "byte " << at << " of " << good.size();
  }
}

TEST(Records, EveryMissingByteIsFound) {
  const test::TemporaryFolder folder;
  const std::string path = packed(folder, 4);
  const std::vector<uint8_t> good = test::read_bytes(path);
  for (size_t length = 0; length < good.size(); ++length) {
    test::write_bytes(path, {good.begin(), good.begin() + static_cast<std::ptrdiff_t>(length)});
    EXPECT_THROW(read_all(path), IoError) << length << " of " << good.size();
  }
  std::vector<uint8_t> longer = good;
  longer.push_back(0);
  test::write_bytes(path, longer);
  EXPECT_THROW(read_all(path), IoError);
}

// A mapped file that another process cuts ended this one by SIGBUS.
TEST(Records, AFileThatIsCutWhileItIsOpenIsAnError) {
  const test::TemporaryFolder folder;
  const std::string path = packed(folder, 2000);
  const data::RecordFile file(path);
  Random random(0, 0, 0);
  std::filesystem::resize_file(path, 4096);
  EXPECT_NO_THROW(file.get(0, random));
  EXPECT_TRUE(contains(thrown_text<IoError>([&] { file.get(1999, random); }), path + ": it became shorter than the "));
}

TEST(Records, NothingAppearsBeforeItIsWhole) {
  const test::TemporaryFolder folder;
  {
    data::RecordWriter writer(folder / "half.rec");
    writer.add(example(1));
  }
  EXPECT_TRUE(folder.names().empty());
  data::RecordWriter writer(folder / "whole.rec");
  writer.finish();
  EXPECT_TRUE(contains(thrown_text<ValueError>([&] { writer.add(example(1)); }), "finished"));
  EXPECT_TRUE(contains(thrown_text<IoError>([&] { data::RecordFile(folder / "none.rec"); }), "No such file"));
  EXPECT_TRUE(contains(thrown_text<IoError>([&] { data::RecordFile(folder.path()); }), "not a file"));
  EXPECT_THROW(data::RecordWriter((folder / "no/such/folder.rec")), IoError);
}

}  // namespace
}  // namespace heddle
