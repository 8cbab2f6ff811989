// IDX files, good and bad. Every bad one is an IoError that names the file and says what is wrong.
#include <gtest/gtest.h>
#include <zlib.h>

#include <filesystem>

#include "heddle/core/base/error.h"
#include "heddle/data/datasets.h"
#include "tests/support/idx_files.h"
#include "tests/support/temporary_folder.h"

namespace heddle {
namespace {

using data::read_idx;
using data::read_idx_images;
using test::Bytes;
using test::contains;
using test::images_file;
using test::labels_file;

Bytes gzip(const Bytes& plain) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  Bytes out(deflateBound(&stream, plain.size()) + 32);
  Bytes in = plain;
  stream.next_in = in.data();
  stream.avail_in = static_cast<uInt>(in.size());
  stream.next_out = out.data();
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

class Idx : public testing::Test {
 protected:
  std::string file(const std::string& name, const Bytes& bytes) {
    test::write_bytes(folder / name, bytes);
    return folder / name;
  }
  std::string error_of(const Bytes& bytes, int rank = 3) {
    const std::string path = file("bad", bytes);
    const std::string text = test::thrown_text<IoError>([&] { read_idx(path, rank); });
    EXPECT_TRUE(contains(text, path));
    EXPECT_EQ(text.find('\n'), std::string::npos);
    return text;
  }
  test::TemporaryFolder folder;
};

TEST_F(Idx, ReadsPlainAndGzipAlike) {
  const Bytes images = images_file(3, 4, 5);
  const auto plain = read_idx(file("plain", images), 3);
  EXPECT_EQ(plain.shape, (std::vector<int64_t>{3, 4, 5}));
  ASSERT_EQ(plain.bytes.size(), 60u);
  EXPECT_EQ(plain.bytes[11], 77);
  // Told apart by content: the name says nothing.
  EXPECT_EQ(read_idx(file("no-suffix", gzip(images)), 3).bytes, plain.bytes);
  EXPECT_EQ(read_idx(file("plain.gz", images), 3).bytes, plain.bytes);
}

TEST_F(Idx, ReadsAnEmptyFileOfZeroImages) {
  const auto none = read_idx(file("none", images_file(0, 28, 28)), 3);
  EXPECT_EQ(none.shape[0], 0);
  EXPECT_TRUE(none.bytes.empty());
}

TEST_F(Idx, MissingFileAndFolder) {
  EXPECT_TRUE(contains(test::thrown_text<IoError>([&] { read_idx(folder / "nothing", 3); }), "no such file"));
  EXPECT_TRUE(contains(test::thrown_text<IoError>([&] { read_idx(folder.path(), 3); }), "is a folder"));
}

TEST_F(Idx, EveryTruncationIsFound) {
  const Bytes whole = images_file(2, 3, 3);
  for (size_t length = 0; length < whole.size(); ++length) {
    EXPECT_TRUE(
        contains(error_of(Bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length))), "truncated"))
        << length;
  }
}

TEST_F(Idx, EveryTruncationOfGzipIsFound) {
  const Bytes whole = gzip(images_file(2, 3, 3));
  for (size_t length = 2; length < whole.size(); ++length) {
    EXPECT_TRUE(
        contains(error_of(Bytes(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length))), "truncated"))
        << length;
  }
}

// A flipped bit is found, unless it changes nothing of what the file decompresses to.
TEST_F(Idx, FlippedBytesOfGzipDataAreFound) {
  const Bytes whole = gzip(images_file(2, 9, 9));
  const auto good = read_idx(file("whole", whole), 3);
  size_t found = 0;
  for (size_t at = 10; at < whole.size();
       ++at) {  // the ten bytes of the gzip header hold a time and flags that need not matter
    Bytes bad = whole;
    bad[at] ^= 0x40;
    try {
      EXPECT_EQ(read_idx(file("flipped", bad), 3).bytes, good.bytes) << at;
    } catch (const IoError&) {
      ++found;
    }
  }
  EXPECT_GE(found, whole.size() - 10 - 2);
}

TEST_F(Idx, WrongMagicSaysWhatTheFileIs) {
  EXPECT_TRUE(contains(error_of(test::idx_file(0x802, {2, 2}, Bytes(4))), "0x00000802, expected 0x00000803"));
  EXPECT_TRUE(contains(error_of(labels_file(4)), "file of labels"));
  EXPECT_TRUE(contains(error_of(images_file(1, 2, 2), 1), "file of images"));
  EXPECT_TRUE(contains(error_of(test::idx_file(0xd03, {1, 1, 1}, Bytes(4))), "not an IDX file of bytes"));
}

TEST_F(Idx, TrailingGarbage) {
  Bytes plain = images_file(1, 2, 2);
  plain.push_back(0);
  EXPECT_TRUE(contains(error_of(plain), "trailing garbage"));
  EXPECT_TRUE(contains(error_of(gzip(plain)), "trailing garbage"));
  Bytes zipped = gzip(images_file(1, 2, 2));
  zipped.insert(zipped.end(), {1, 2, 3});
  EXPECT_TRUE(contains(error_of(zipped), "3 bytes of garbage"));
}

TEST_F(Idx, ImpossibleSizesAllocateNothing) {
  EXPECT_TRUE(
      contains(error_of(test::idx_file(0x803, {0xffffffffu, 0xffffffffu, 0xffffffffu}, {})), "impossible sizes"));
  EXPECT_TRUE(contains(error_of(test::idx_file(0x803, {0xffffffffu, 28, 28}, Bytes(784))), "truncated"));
  EXPECT_TRUE(contains(error_of(gzip(test::idx_file(0x803, {0xffffffffu, 28, 28}, Bytes(784)))), "truncated"));
}

TEST_F(Idx, CountsOfImagesAndLabelsMustAgree) {
  const std::string images = file("images", images_file(3, 2, 2)), labels = file("labels", labels_file(4));
  EXPECT_TRUE(contains(test::thrown_text<IoError>([&] { read_idx_images(images, labels); }),
                       "has 3 images, but " + labels + " has 4 labels"));
}

TEST_F(Idx, LabelsOutOfRange) {
  const std::string images = file("images", images_file(3, 2, 2)),
                    labels = file("labels", test::idx_file(0x801, {3}, {9, 10, 0}));
  EXPECT_TRUE(contains(test::thrown_text<IoError>([&] { read_idx_images(images, labels); }),
                       "label 10 of item 1 is out of range, expected 0 to 9"));
  EXPECT_EQ(read_idx_images(images, labels, 11).labels[1], 10);
  EXPECT_THROW(read_idx_images(images, labels, 0), ValueError);
}

TEST_F(Idx, Folder) {
  EXPECT_TRUE(
      contains(test::thrown_text<IoError>([&] { data::read_mnist_folder(folder / "none"); }), "no such folder"));
  EXPECT_TRUE(
      contains(test::thrown_text<IoError>([&] { data::read_mnist_folder(folder.path()); }), "train-images-idx3-ubyte"));
  file("train-images-idx3-ubyte", images_file(4, 28, 28));
  file("train-labels-idx1-ubyte.gz", gzip(labels_file(4)));
  file("t10k-images-idx3-ubyte.gz", gzip(images_file(2, 28, 28)));
  file("t10k-labels-idx1-ubyte", labels_file(2));
  const data::Split split = data::read_mnist_folder(folder.path());
  EXPECT_EQ(split.train.size(), 4);
  EXPECT_EQ(split.test.size(), 2);
  EXPECT_EQ(split.train.image_size(), 784);
  file("t10k-images-idx3-ubyte.gz", gzip(images_file(2, 14, 28)));
  EXPECT_TRUE(contains(test::thrown_text<IoError>([&] { data::read_mnist_folder(folder.path()); }), "14x28"));
}

TEST_F(Idx, RealMnist) {
  const std::string real = std::string(HEDDLE_SOURCE_DIR) + "/../shared/data/mnist";
  if (!std::filesystem::exists(real)) GTEST_SKIP() << real << " is not here";
  const data::Split split = data::read_mnist_folder(real);
  EXPECT_EQ(split.train.size(), 60000);
  EXPECT_EQ(split.test.size(), 10000);
  EXPECT_EQ(split.test.labels[0], 7);  // the first test digit is a well-known 7
  EXPECT_EQ(split.train.labels[0], 5);
}

}  // namespace
}  // namespace heddle
