// PNG and JPEG files, and folders of them. What a build without their decoders does: tests/absent.
#if defined(HEDDLE_HAS_PNG) && defined(HEDDLE_HAS_JPEG)
#include "data/image_file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <turbojpeg.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>

#include "core/base/error.h"
#include "tests/support/temporary_folder.h"

namespace heddle {
namespace {

using data::Array;
using test::contains;
using test::thrown_text;

Array picture(int64_t channels, int64_t height, int64_t width) {
  std::vector<uint8_t> pixels;
  for (int64_t c = 0; c < channels; ++c) {
    for (int64_t y = 0; y < height; ++y) {
      for (int64_t x = 0; x < width; ++x) pixels.push_back(static_cast<uint8_t>(50 * c + 4 * y + 3 * x));
    }
  }
  return Array::of(pixels, Shape{channels, height, width});
}

void write_jpeg(const std::string& path, const Array& pixels) {
  const int64_t height = pixels.shape[1], width = pixels.shape[2], count = height * width;
  std::vector<uint8_t> interleaved(static_cast<size_t>(3 * count));
  for (int64_t c = 0; c < 3; ++c) {
    for (int64_t i = 0; i < count; ++i) interleaved[static_cast<size_t>(3 * i + c)] = pixels.as<uint8_t>()[static_cast<size_t>(c * count + i)];
  }
  const tjhandle encoder = tjInitCompress();
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  ASSERT_EQ(tjCompress2(encoder, interleaved.data(), static_cast<int>(width), 0, static_cast<int>(height), TJPF_RGB, &bytes, &size, TJSAMP_444, 95, 0), 0);
  test::write_bytes(path, {bytes, bytes + size});
  tjFree(bytes);
  tjDestroy(encoder);
}

TEST(ImageFile, PngsComeBackAsTheyWere) {
  const test::TemporaryFolder folder;
  for (const int64_t channels : {1, 3}) {
    const Array written = picture(channels, 7, 5);
    data::write_png(folder / "a.png", written);
    const Array read = data::read_image(folder / "a.png");
    EXPECT_EQ(read.shape, written.shape);
    EXPECT_TRUE(read.bytes == written.bytes);
  }
  data::write_png(folder / "grey.png", picture(1, 4, 6));
  const Array wide = data::read_image(folder / "grey.png", 3);
  EXPECT_EQ(wide.shape, (Shape{3, 4, 6}));
  for (size_t i = 0; i < 24; ++i) EXPECT_EQ(wide.as<uint8_t>()[i], wide.as<uint8_t>()[48 + i]);
}

TEST(ImageFile, JpegsAreNear) {
  const test::TemporaryFolder folder;
  const Array written = picture(3, 17, 23);
  write_jpeg(folder / "named.png", written);  // told by the content
  const Array read = data::read_image(folder / "named.png");
  ASSERT_EQ(read.shape, written.shape);
  double worst = 0;
  for (size_t i = 0; i < read.bytes.size(); ++i) worst = std::max(worst, std::abs(static_cast<double>(read.as<uint8_t>()[i]) - static_cast<double>(written.as<uint8_t>()[i])));
  EXPECT_LE(worst, 6);
  EXPECT_EQ(data::read_image(folder / "named.png", 1).shape, (Shape{1, 17, 23}));
}

// A file that is cut anywhere, or has a flipped bit, is refused or (a JPEG's pixels have no checksum) still an image of its size: never a crash.
TEST(ImageFile, BrokenFilesAreNamed) {
  const test::TemporaryFolder folder;
  data::write_png(folder / "a.png", picture(3, 9, 8));
  write_jpeg(folder / "a.jpg", picture(3, 17, 23));
  for (const char* name : {"a.png", "a.jpg"}) {
    const std::string path = folder / name;
    const std::vector<uint8_t> good = test::read_bytes(path);
    const size_t marker = name == std::string("a.png") ? 12 : 2;  // the closing chunk or marker may be missing: nothing is lost
    for (size_t length = 0; length + marker < good.size(); ++length) {
      test::write_bytes(path, {good.begin(), good.begin() + static_cast<std::ptrdiff_t>(length)});
      EXPECT_TRUE(contains(thrown_text<IoError>([&] { data::read_image(path); }), name)) << length << " of " << good.size();
    }
    for (size_t at = 0; at < good.size(); ++at) {
      std::vector<uint8_t> bad = good;
      bad[at] ^= static_cast<uint8_t>(1u << at % 8);
      test::write_bytes(path, bad);
      try {
        data::read_image(path);
      } catch (const IoError& error) {
        EXPECT_TRUE(contains(error.what(), name));
      }
    }
  }
  EXPECT_TRUE(contains(thrown_text<IoError>([&] { data::read_image(folder / "none.png"); }), "no such file"));
  EXPECT_TRUE(contains(thrown_text<IoError>([&] { data::read_image(folder.path()); }), "is a folder"));
  test::write_bytes(folder / "text.png", {'h', 'e', 'l', 'l', 'o'});
  EXPECT_TRUE(contains(thrown_text<IoError>([&] { data::read_image(folder / "text.png"); }), "neither a PNG nor a JPEG"));
  EXPECT_TRUE(contains(thrown_text<ShapeError>([&] { data::write_png(folder / "b.png", Array::scalar(1.0f)); }), "expected u8"));
}

// 68 bytes that say 16384 x 16384 pixels took 788 MiB before they were refused.
TEST(ImageFile, AHeaderIsNotBelieved) {
  const test::TemporaryFolder folder;
  const std::string path = folder / "large";
  const auto peak_kilobytes = [] {
    struct rusage usage {};
    ::getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
  };
  const auto refused = [&](const std::vector<uint8_t>& file) {
    test::write_bytes(path, file);
    const long before = peak_kilobytes();
    EXPECT_TRUE(contains(thrown_text<IoError>([&] { data::read_image(path); }), "its header says 16384 x 16384 pixels, which"));
    EXPECT_LT(peak_kilobytes() - before, 64 << 10);
  };
  refused({0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0x00, 0x00, 0x00, 0x0d, 0x49, 0x48, 0x44, 0x52, 0x00, 0x00, 0x40, 0x00, 0x00, 0x00, 0x40, 0x00, 0x08, 0x02, 0x00, 0x00, 0x00, 0x26, 0xaa, 0x87, 0xd3,
           0x00, 0x00, 0x00, 0x08, 0x49, 0x44, 0x41, 0x54, 0x78, 0x9c, 0x03, 0x00, 0x00, 0x00, 0x00, 0x01, 0x48, 0x06, 0x89, 0xd2, 0x00, 0x00, 0x00, 0x00, 0x49, 0x45, 0x4e, 0x44, 0xae, 0x42, 0x60, 0x82});
  write_jpeg(path, picture(3, 17, 23));
  std::vector<uint8_t> jpeg = test::read_bytes(path);
  const std::array<uint8_t, 2> start_of_frame = {0xff, 0xc0};
  const auto frame = std::search(jpeg.begin(), jpeg.end(), start_of_frame.begin(), start_of_frame.end());
  ASSERT_NE(frame, jpeg.end());
  for (const int at : {5, 7}) {  // height and width, big-endian
    frame[at] = 0x40;
    frame[at + 1] = 0;
  }
  refused(jpeg);
}

// What compresses best is held all the same: white pages.
TEST(ImageFile, BlankImagesAreRead) {
  const test::TemporaryFolder folder;
  const Array blank{DType::u8, Shape{3, 1000, 2000}, std::vector<std::byte>(3 * 1000 * 2000, std::byte{255})};
  data::write_png(folder / "a.png", blank);
  write_jpeg(folder / "a.jpg", blank);
  for (const char* name : {"a.png", "a.jpg"}) EXPECT_EQ(data::read_image(folder / name).bytes, blank.bytes) << name;
}

TEST(ImageFolder, HasTheClassesOfItsFolders) {
  const test::TemporaryFolder folder;
  namespace fs = std::filesystem;
  for (const char* name : {"dog", "cat"}) fs::create_directories(folder / name);
  data::write_png(folder / "dog/1.PNG", picture(3, 2, 2));
  data::write_png(folder / "cat/2.png", picture(1, 3, 2));
  data::write_png(folder / "cat/1.png", picture(3, 2, 2));
  test::write_bytes(folder / "cat/notes.txt", {'x'});
  const data::ImageFolder images(folder.path());
  EXPECT_EQ(images.classes(), (std::vector<std::string>{"cat", "dog"}));
  ASSERT_EQ(images.size(), 3);
  data::Random random(0, 0, 0);
  EXPECT_EQ(images.get(1, random)[0].shape, (Shape{3, 3, 2}));
  EXPECT_EQ(images.get(1, random)[1].as<int32_t>()[0], 0);
  EXPECT_EQ(images.get(2, random)[1].as<int32_t>()[0], 1);
  fs::create_directories(folder / "empty");
  EXPECT_TRUE(contains(thrown_text<IoError>([&] { data::ImageFolder(folder.path()); }), "empty"));
  EXPECT_TRUE(contains(thrown_text<IoError>([&] { data::ImageFolder(folder / "dog"); }), "no folders of classes"));
  EXPECT_TRUE(contains(thrown_text<IoError>([&] { data::ImageFolder(folder / "bird"); }), "no such folder"));
}

}  // namespace
}  // namespace heddle
#endif
