// PNG and JPEG files, and folders of them. What a build without their decoders does: tests/absent.
#if defined(HEDDLE_HAS_PNG) && defined(HEDDLE_HAS_JPEG)
#include "heddle/data/image_file.h"

#include <gtest/gtest.h>
#include <turbojpeg.h>
#include <zlib.h>
#ifdef _WIN32
#include <windows.h>
// It needs the one above.
#include <psapi.h>
#else
#include <sys/resource.h>
#endif

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "heddle/core/base/error.h"
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
    for (int64_t i = 0; i < count; ++i)
      interleaved[static_cast<size_t>(3 * i + c)] = pixels.as<uint8_t>()[static_cast<size_t>(c * count + i)];
  }
  const tjhandle encoder = tjInitCompress();
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  ASSERT_EQ(tjCompress2(encoder, interleaved.data(), static_cast<int>(width), 0, static_cast<int>(height), TJPF_RGB,
                        &bytes, &size, TJSAMP_444, 95, 0),
            0);
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

// An APP1 segment with EXIF's tag of orientation behind the start of a JPEG.
void set_orientation(const std::string& path, uint8_t value, bool big_endian) {
  std::vector<uint8_t> file = test::read_bytes(path);
  const std::vector<uint8_t> little = {0xff, 0xe1, 0,  34, 'E', 'x', 'i', 'f', 0, 0, 'I',   'I', 42, 0, 8, 0, 0, 0,
                                       1,    0,    18, 1,  3,   0,   1,   0,   0, 0, value, 0,   0,  0, 0, 0, 0, 0};
  const std::vector<uint8_t> big = {0xff, 0xe1, 0, 34, 'E', 'x', 'i', 'f', 0, 0, 'M', 'M',   0, 42, 0, 0, 0, 8,
                                    0,    1,    1, 18, 0,   3,   0,   0,   0, 1, 0,   value, 0, 0,  0, 0, 0, 0};
  const std::vector<uint8_t>& segment = big_endian ? big : little;
  file.insert(file.begin() + 2, segment.begin(), segment.end());
  test::write_bytes(path, file);
}

// What a viewer shows: EXIF 2.32, 4.6.4 A, orientation.
TEST(ImageFile, JpegsAreTurnedAsTheirCameraWas) {
  const test::TemporaryFolder folder;
  const Array written = picture(3, 16, 24);
  write_jpeg(folder / "a.jpg", written);
  const Array plain = data::read_image(folder / "a.jpg");
  const auto at = [](const Array& image, int64_t y, int64_t x) {
    return image.as<uint8_t>()[static_cast<size_t>(image.shape[2] * y + x)];
  };
  for (int value = 0; value <= 9; ++value) {
    SCOPED_TRACE(value);
    write_jpeg(folder / "b.jpg", written);
    set_orientation(folder / "b.jpg", static_cast<uint8_t>(value), value % 2 == 1);
    const Array read = data::read_image(folder / "b.jpg");
    const bool turned = value >= 5 && value <= 8;
    ASSERT_EQ(read.shape, (turned ? Shape{3, 24, 16} : Shape{3, 16, 24}));
    for (int64_t y = 0; y < 16; ++y) {
      for (int64_t x = 0; x < 24; ++x) {
        const int64_t last_y = 15 - y, last_x = 23 - x;
        const std::array<std::pair<int64_t, int64_t>, 10> shown = {{{y, x},
                                                                    {y, x},
                                                                    {y, last_x},
                                                                    {last_y, last_x},
                                                                    {last_y, x},
                                                                    {x, y},
                                                                    {x, last_y},
                                                                    {last_x, last_y},
                                                                    {last_x, y},
                                                                    {y, x}}};
        const auto [row, column] = shown[static_cast<size_t>(value)];
        ASSERT_EQ(at(read, row, column), at(plain, y, x)) << y << ' ' << x;
      }
    }
  }
}

// A directory anywhere but in the segment says nothing.
TEST(ImageFile, DamagedOrientationsAreNone) {
  const test::TemporaryFolder folder;
  for (const uint8_t place : {0, 7, 26, 27, 200, 255}) {
    write_jpeg(folder / "a.jpg", picture(3, 8, 16));
    set_orientation(folder / "a.jpg", 6, false);
    std::vector<uint8_t> file = test::read_bytes(folder / "a.jpg");
    file[2 + 14] = place;
    test::write_bytes(folder / "a.jpg", file);
    EXPECT_EQ(data::read_image(folder / "a.jpg").shape, (Shape{3, 8, 16})) << int{place};
  }
}

// Inks as libjpeg-turbo writes them, and as Adobe's programs do: 255 less the ink. A pixel is light times what black
// leaves of it.
TEST(ImageFile, InksBecomeLight) {
  const test::TemporaryFolder folder;
  const auto written = [&](std::array<uint8_t, 4> inks, bool by_adobe) {
    std::vector<uint8_t> stored;
    for (int i = 0; i < 64; ++i) stored.insert(stored.end(), inks.begin(), inks.end());
    const tjhandle encoder = tjInitCompress();
    unsigned char* bytes = nullptr;
    unsigned long size = 0;
    EXPECT_EQ(tjCompress2(encoder, stored.data(), 8, 0, 8, TJPF_CMYK, &bytes, &size, TJSAMP_444, 100, 0), 0);
    std::vector<uint8_t> file(bytes, bytes + size);
    tjFree(bytes);
    tjDestroy(encoder);
    const std::string_view adobe = "Adobe";
    const auto marker = std::search(file.begin(), file.end(), adobe.begin(), adobe.end());
    EXPECT_NE(marker, file.end());
    if (!by_adobe) *marker = 'a';
    test::write_bytes(folder / "inks.jpg", file);
    return data::read_image(folder / "inks.jpg");
  };
  const auto expect_near = [](const Array& image, std::array<int, 3> wanted) {
    for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(image.as<uint8_t>()[64 * i], wanted[i], 2) << i;
  };
  expect_near(written({200, 100, 20, 128}, true), {100, 50, 10});
  EXPECT_NEAR(data::read_image(folder / "inks.jpg", 1).as<uint8_t>()[0], 0.299 * 100 + 0.587 * 50 + 0.114 * 10, 2);
  // Without the mark nobody knows that the encoder wrote light and its colour: inks of 55, 128 and 128.
  expect_near(written({200, 200, 200, 128}, false), {100, 63, 63});
}

TEST(ImageFile, JpegsAreNear) {
  const test::TemporaryFolder folder;
  const Array written = picture(3, 17, 23);
  write_jpeg(folder / "named.png", written);  // told by the content
  const Array read = data::read_image(folder / "named.png");
  ASSERT_EQ(read.shape, written.shape);
  double worst = 0;
  for (size_t i = 0; i < read.bytes.size(); ++i)
    worst = std::max(
        worst, std::abs(static_cast<double>(read.as<uint8_t>()[i]) - static_cast<double>(written.as<uint8_t>()[i])));
  EXPECT_LE(worst, 6);
  EXPECT_EQ(data::read_image(folder / "named.png", 1).shape, (Shape{1, 17, 23}));
}

// A file that is cut anywhere, or has a flipped bit, is refused or (a JPEG's pixels have no checksum) still an image of
// its size: never a crash.
TEST(ImageFile, BrokenFilesAreNamed) {
  const test::TemporaryFolder folder;
  data::write_png(folder / "a.png", picture(3, 9, 8));
  write_jpeg(folder / "a.jpg", picture(3, 17, 23));
  for (const char* name : {"a.png", "a.jpg"}) {
    const std::string path = folder / name;
    const std::vector<uint8_t> good = test::read_bytes(path);
    const size_t marker =
        name == std::string("a.png") ? 12 : 2;  // the closing chunk or marker may be missing: nothing is lost
    for (size_t length = 0; length + marker < good.size(); ++length) {
      test::write_bytes(path, {good.begin(), good.begin() + static_cast<std::ptrdiff_t>(length)});
      EXPECT_TRUE(contains(thrown_text<IoError>([&] { data::read_image(path); }), name))
          << length << " of " << good.size();
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
  EXPECT_TRUE(
      contains(thrown_text<IoError>([&] { data::read_image(folder / "text.png"); }), "neither a PNG nor a JPEG"));
  EXPECT_TRUE(contains(thrown_text<ShapeError>([&] { data::write_png(folder / "b.png", Array::scalar(1.0f)); }),
                       "expected u8"));
}

#ifdef _WIN32
long peak_kilobytes() {
  PROCESS_MEMORY_COUNTERS counters{};
  GetProcessMemoryInfo(GetCurrentProcess(), &counters, sizeof counters);
  return static_cast<long>(counters.PeakWorkingSetSize >> 10);
}
#else
long peak_kilobytes() {
  struct rusage usage {};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}
#endif

void append(std::vector<uint8_t>& to, uint32_t number) {
  for (int shift = 24; shift >= 0; shift -= 8) to.push_back(static_cast<uint8_t>(number >> shift));
}

void append_chunk(std::vector<uint8_t>& to, std::string_view name, const std::vector<uint8_t>& content) {
  append(to, static_cast<uint32_t>(content.size()));
  const size_t from = to.size();
  to.insert(to.end(), name.begin(), name.end());
  to.insert(to.end(), content.begin(), content.end());
  append(to, static_cast<uint32_t>(::crc32_z(0, to.data() + from, to.size() - from)));
}

// A grey PNG of `depth` bits a pixel whose pixels are `rows`, behind a chunk of `padding` bytes that says nothing.
std::vector<uint8_t> grey(int depth, uint32_t width, uint32_t height, bool interlaced, const std::vector<uint8_t>& rows,
                          size_t padding) {
  std::vector<uint8_t> file = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'}, header,
                       packed(::compressBound(rows.size()));
  append(header, width);
  append(header, height);
  for (const int byte : {depth, 0, 0, 0, interlaced ? 1 : 0}) header.push_back(static_cast<uint8_t>(byte));
  append_chunk(file, "IHDR", header);
  append_chunk(file, "prVt", std::vector<uint8_t>(padding));
  uLong bytes = packed.size();
  EXPECT_EQ(::compress2(packed.data(), &bytes, rows.data(), rows.size(), 9), Z_OK);
  packed.resize(bytes);
  append_chunk(file, "IDAT", packed);
  append_chunk(file, "IEND", {});
  return file;
}

std::vector<uint8_t> fax(uint32_t width, uint32_t height, bool interlaced, const std::vector<uint8_t>& rows,
                         size_t padding = 0) {
  return grey(1, width, height, interlaced, rows, padding);
}

// Refused before memory is taken for the pixels.
void expect_refused(const std::vector<uint8_t>& file, const std::string& why) {
  const test::TemporaryFolder folder;
  test::write_bytes(folder / "large", file);
  for (const int channels : {0, 1, 3}) {
    const long before = peak_kilobytes();
    EXPECT_TRUE(contains(thrown_text<IoError>([&] { data::read_image(folder / "large", channels); }), why));
    EXPECT_LT(peak_kilobytes() - before, 16 << 10);
  }
}

// 68 bytes that say 16384 x 16384 pixels took 788 MiB before they were refused.
TEST(ImageFile, AHeaderIsNotBelieved) {
  expect_refused({0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0x00, 0x00, 0x00, 0x0d, 0x49, 0x48, 0x44, 0x52, 0x00,
                  0x00, 0x40, 0x00, 0x00, 0x00, 0x40, 0x00, 0x08, 0x02, 0x00, 0x00, 0x00, 0x26, 0xaa, 0x87, 0xd3, 0x00,
                  0x00, 0x00, 0x08, 0x49, 0x44, 0x41, 0x54, 0x78, 0x9c, 0x03, 0x00, 0x00, 0x00, 0x00, 0x01, 0x48, 0x06,
                  0x89, 0xd2, 0x00, 0x00, 0x00, 0x00, 0x49, 0x45, 0x4e, 0x44, 0xae, 0x42, 0x60, 0x82},
                 "16384 x 16384 pixels; at most 2^27 are read");
  const test::TemporaryFolder folder;
  write_jpeg(folder / "a.jpg", picture(3, 17, 23));
  std::vector<uint8_t> jpeg = test::read_bytes(folder / "a.jpg");
  const std::array<uint8_t, 2> start_of_frame = {0xff, 0xc0};
  const auto frame = std::search(jpeg.begin(), jpeg.end(), start_of_frame.begin(), start_of_frame.end());
  ASSERT_NE(frame, jpeg.end());
  const std::array<uint8_t, 4> size = {0x20, 0, 0x40, 0};  // height and width, big-endian
  std::copy(size.begin(), size.end(), frame + 5);
  expect_refused(jpeg, "its header says 16384 x 8192 pixels, which");
  frame[1] = 0xc9;  // arithmetic coding has no such bound
  expect_refused(jpeg, "its header says 16384 x 8192 pixels, which");
}

// libpng took a gigabyte for a comment of 99 bytes that says it has 512 MB.
TEST(ImageFile, AChunkIsNotBelieved) {
  std::vector<uint8_t> file = fax(8, 1, false, {0, 0});
  constexpr std::array<uint8_t, 8> comment = {0x20, 0, 0, 3, 't', 'E', 'X', 't'};
  file.insert(file.begin() + 33, comment.begin(), comment.end());  // behind the header
  expect_refused(file, "truncated: a chunk says 536870915 bytes");
}

// At one bit a pixel 33 KB may hold 2^28 pixels: they must be there.
TEST(ImageFile, LargePngsMustBeWhole) {
  constexpr uint32_t side = 8192, row = 1 + side / 8;
  const auto speckled = [](size_t bytes) {
    std::vector<uint8_t> rows(bytes);
    for (size_t at = 0; at < bytes; at += row + 99) rows[at] = static_cast<uint8_t>(at % row == 0 ? 0 : at * 7);
    return rows;
  };
  for (const bool interlaced : {false, true}) {
    expect_refused(fax(side, side, interlaced, {0, 0, 0}, 100 << 10),
                   "its header says 8192 x 8192 pixels, which");  // too little for them, whatever it holds
    expect_refused(fax(side, side, interlaced, speckled(size_t{row} * side / 2)),
                   "its header says 8192 x 8192 pixels, which");  // says what it has, and that it ends there
  }
  std::vector<uint8_t> cut = fax(side, side, false, speckled(size_t{row} * side));
  cut.resize(cut.size() - 100);
  expect_refused(cut, "truncated: a chunk says");
}

// A blank page: white is 1.
TEST(ImageFile, PngsOfOneBitAreRead) {
  const test::TemporaryFolder folder;
  const auto expect_white = [&](const std::vector<uint8_t>& file) {
    test::write_bytes(folder / "a.png", file);
    const Array page = data::read_image(folder / "a.png");
    EXPECT_EQ(page.shape, (Shape{1, 4099, 4101}));
    EXPECT_TRUE(std::all_of(page.bytes.begin(), page.bytes.end(), [](std::byte b) { return b == std::byte{255}; }));
  };
  const auto rows_of = [](std::vector<uint8_t>& rows, int64_t width, int64_t height) {
    for (int64_t y = 0; y < height; ++y) {
      rows.push_back(0);
      rows.insert(rows.end(), static_cast<size_t>((width + 7) / 8), 0xff);
    }
  };
  std::vector<uint8_t> whole, passes;
  rows_of(whole, 4101, 4099);
  expect_white(fax(4101, 4099, false, whole));
  // Adam7: every eighth pixel of every eighth row first.
  const std::array<std::array<int64_t, 2>, 7> sizes = {
      {{513, 513}, {513, 513}, {1026, 512}, {1025, 1025}, {2051, 1025}, {2050, 2050}, {4101, 2049}}};
  for (const auto& [width, height] : sizes) rows_of(passes, width, height);
  expect_white(fax(4101, 4099, true, passes));
}

// What compresses best is held all the same: white pages.
// Samples of 16 bits are of the same curve as those of 8: their upper halves.
TEST(ImageFile, PngsOf16BitsKeepTheirTones) {
  const test::TemporaryFolder folder;
  test::write_bytes(folder / "a.png", grey(16, 4, 1, false, {0, 0, 0, 64, 64, 128, 128, 255, 255}, 0));
  const Array image = data::read_image(folder / "a.png");
  const auto pixels = image.as<uint8_t>();
  EXPECT_EQ(std::vector<int>(pixels.begin(), pixels.end()), (std::vector<int>{0, 64, 128, 255}));
}

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
