// JPEG through libjpeg-turbo; a build without it says so.
#include <fmt/format.h>
#ifdef HEDDLE_HAS_JPEG
#include <turbojpeg.h>
#endif

#include <algorithm>
#include <array>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

#include "heddle/core/base/error.h"
#include "heddle/data/image_codecs.h"

namespace heddle::data {

#ifdef HEDDLE_HAS_JPEG

namespace {

[[noreturn]] void fail_jpeg(const std::string& path, const std::string& why) {
  throw IoError(fmt::format("[image] {}: {}", path, why));
}

struct CloseJpeg {
  void operator()(void* handle) const { tjDestroy(handle); }
};

// The most pixels that a JPEG of this many bytes can hold: of 8 x 8 pixels a Huffman code takes at least a bit.
// Arithmetic coding, which nearly nobody writes, has no such bound.
int64_t most_jpeg_pixels(const std::vector<uint8_t>& file) {
  constexpr int64_t most_arithmetic = int64_t{1} << 24;
  const int64_t most = static_cast<int64_t>(file.size()) * 8 * 64;
  for (size_t at = 2; at + 4 <= file.size() && file[at] == 0xff;) {
    const uint8_t marker = file[at + 1];
    if (marker >= 0xc9 && marker <= 0xcf && marker != 0xcc) return std::max(most, most_arithmetic);
    if (marker >= 0xc0 && marker <= 0xc3) break;
    at += 2 + (size_t{file[at + 2]} << 8 | file[at + 3]);
  }
  return most;
}

using Segment = std::span<const uint8_t>;

// Behind marker and length; nothing where the file has none, or what follows is not one.
Segment segment_of(const std::vector<uint8_t>& file, uint8_t wanted, std::string_view begins) {
  constexpr uint8_t scan = 0xda;
  for (size_t at = 2; at + 4 <= file.size() && file[at] == 0xff && file[at + 1] != scan;) {
    const size_t length = size_t{file[at + 2]} << 8 | file[at + 3];
    if (length < 2 || length > file.size() - at - 2) break;
    const Segment content = Segment(file).subspan(at + 4, length - 2);
    if (file[at + 1] == wanted && content.size() >= begins.size() &&
        std::equal(begins.begin(), begins.end(), content.begin()))
      return content.subspan(begins.size());
    at += 2 + length;
  }
  return {};
}

// The tag of EXIF 2.32, 4.6.4 A: 1 to 8, 1 where the file says nothing.
int orientation_of(const std::vector<uint8_t>& file) {
  using namespace std::string_view_literals;
  constexpr uint8_t app1 = 0xe1;
  const Segment tiff = segment_of(file, app1, "Exif\0\0"sv);
  if (tiff.size() < 8 || (tiff[0] != 'I' && tiff[0] != 'M')) return 1;
  const auto number = [&](size_t at, size_t bytes) {
    size_t value = 0;
    for (size_t i = 0; i < bytes; ++i) value = value << 8 | tiff[tiff[0] == 'I' ? at + bytes - 1 - i : at + i];
    return value;
  };
  constexpr size_t tag = 0x112, entry_bytes = 12;
  const size_t directory = number(4, 4);
  if (directory > tiff.size() - 2) return 1;
  for (size_t i = 0; i < number(directory, 2); ++i) {
    const size_t at = directory + 2 + i * entry_bytes;
    if (at + entry_bytes > tiff.size()) break;
    if (number(at, 2) != tag) continue;
    const size_t value = number(at + 8, 2);
    return value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
  }
  return 1;
}

// As the camera was held: 2 to 4 mirror axes, 5 to 8 transpose before it.
Pixels upright(Pixels image, int orientation) {
  if (orientation == 1) return image;
  const bool turned = orientation >= 5;
  const bool from_right = orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8,
             from_below = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
  Pixels made{std::vector<std::byte>(image.interleaved.size()), turned ? image.width : image.height,
              turned ? image.height : image.width, image.channels};
  const auto channels = static_cast<size_t>(image.channels);
  const std::byte* from = image.interleaved.data();
  std::byte* to = made.interleaved.data();
  for (int64_t y = 0; y < made.height; ++y) {
    for (int64_t x = 0; x < made.width; ++x, to += channels) {
      const int64_t row = turned ? x : y, column = turned ? y : x;
      const int64_t at =
          (from_below ? image.height - 1 - row : row) * image.width + (from_right ? image.width - 1 - column : column);
      std::copy_n(from + static_cast<size_t>(at) * channels, channels, to);
    }
  }
  return made;
}

// Four inks to light. Adobe's programs, which write nearly all of these files, store 255 less the ink.
std::vector<std::byte> light_of(const std::vector<std::byte>& inks, bool stored_as_light, int channels) {
  std::vector<std::byte> made;
  made.reserve(inks.size() / 4 * static_cast<size_t>(channels));
  for (size_t at = 0; at + 4 <= inks.size(); at += 4) {
    std::array<unsigned, 4> left{};
    for (size_t i = 0; i < 4; ++i) {
      const auto value = std::to_integer<unsigned>(inks[at + i]);
      left[i] = stored_as_light ? value : 255 - value;
    }
    const auto lit = [&](size_t i) { return (left[i] * left[3] + 127) / 255; };
    if (channels == 3) {
      for (size_t i = 0; i < 3; ++i) made.push_back(static_cast<std::byte>(lit(i)));
    } else {  // ITU-R BT.601's luma, as JPEG's own
      made.push_back(static_cast<std::byte>((299 * lit(0) + 587 * lit(1) + 114 * lit(2) + 500) / 1000));
    }
  }
  return made;
}

}  // namespace

Pixels decode_jpeg(const std::string& path, const std::vector<uint8_t>& file, int channels) {
  const std::unique_ptr<void, CloseJpeg> decoder(tjInitDecompress());
  if (!decoder) fail_jpeg(path, "libjpeg-turbo could not be started");
  int width = 0, height = 0, sampling = 0, colours = 0;
  if (tjDecompressHeader3(decoder.get(), file.data(), file.size(), &width, &height, &sampling, &colours) != 0)
    fail_jpeg(path, tjGetErrorStr2(decoder.get()));
  check_image_size(path, width, height);
  if (int64_t{width} * height > most_jpeg_pixels(file)) fail_not_held(path, file.size(), width, height);
  if (channels == 0) channels = colours == TJCS_GRAY ? 1 : 3;
  const bool inks = colours == TJCS_CMYK || colours == TJCS_YCCK;
  const int format = inks ? TJPF_CMYK : channels == 3 ? TJPF_RGB : TJPF_GRAY;
  std::vector<std::byte> pixels(static_cast<size_t>(width) * static_cast<size_t>(height) *
                                static_cast<size_t>(tjPixelSize[format]));
  // Warnings too: a file that was cut short is filled up with grey.
  int flags = TJFLAG_ACCURATEDCT | TJFLAG_STOPONWARNING;
#ifdef TJFLAG_LIMITSCANS
  flags |= TJFLAG_LIMITSCANS;  // each of a progressive file's scans goes over the whole image: at most 500
#endif
  if (tjDecompress2(decoder.get(), file.data(), file.size(), reinterpret_cast<unsigned char*>(pixels.data()), width, 0,
                    height, format, flags) != 0) {
    fail_jpeg(path, tjGetErrorStr2(decoder.get()));
  }
  constexpr uint8_t app14 = 0xee;
  if (inks) pixels = light_of(pixels, !segment_of(file, app14, "Adobe").empty(), channels);
  return upright({std::move(pixels), height, width, channels}, orientation_of(file));
}

#else

Pixels decode_jpeg(const std::string& path, const std::vector<uint8_t>&, int) {
  throw IoError(
      fmt::format("[image] {}: this build of Heddle has no libjpeg-turbo, so it reads no JPEG files; install "
                  "libturbojpeg0-dev and build again",
                  path));
}

#endif

}  // namespace heddle::data
