// PNG through libpng; a build without it says so.
#include <fmt/format.h>
#ifdef HEDDLE_HAS_PNG
#include <png.h>
#endif

#include <array>
#include <cstring>
#include <span>
#include <string_view>
#include <utility>

#include "heddle/core/base/error.h"
#include "heddle/core/base/integers.h"
#include "heddle/data/image_codecs.h"
#include "heddle/io/inflate.h"

namespace heddle::data {

#ifdef HEDDLE_HAS_PNG

namespace {

[[noreturn]] void fail_png(const std::string& path, const std::string& why) {
  throw IoError(fmt::format("[image] {}: {}", path, why));
}

// libpng's state, freed with it.
struct PngImage : png_image {
  PngImage() {
    std::memset(static_cast<png_image*>(this), 0, sizeof(png_image));
    version = PNG_IMAGE_VERSION;
  }
  ~PngImage() { png_image_free(this); }
  PngImage(const PngImage&) = delete;
  PngImage& operator=(const PngImage&) = delete;
};

using ByteVector = std::vector<uint8_t>;

uint32_t big_endian(const ByteVector& file, size_t at) {
  return uint32_t{file[at]} << 24 | uint32_t{file[at + 1]} << 16 | uint32_t{file[at + 2]} << 8 | file[at + 3];
}

// Behind the signature stand chunks: length, name, content, CRC. The header is the first one, always.
constexpr size_t chunks_at = 8, chunk_bytes = 12, depth_at = 24, kind_at = 25, interlaced_at = 28;

using Content = std::span<const uint8_t>;

// What the chunks of pixels hold. libpng takes memory for a chunk of any length before it reads it: all must lie inside
// the file.
std::vector<Content> pixel_chunks(const std::string& path, const ByteVector& file) {
  std::vector<Content> pixels;
  for (size_t at = chunks_at; at + 8 <= file.size();) {
    const size_t length = big_endian(file, at), left = file.size() - at - 8;
    if (length > left) fail_png(path, fmt::format("truncated: a chunk says {} bytes, {} are left", length, left));
    const std::string_view name(reinterpret_cast<const char*>(&file[at + 4]), 4);
    if (name == "IEND") break;
    if (name == "IDAT") pixels.push_back(Content(file).subspan(at + 8, length));
    at += chunk_bytes + length;
  }
  return pixels;
}

int64_t bits_per_pixel(const ByteVector& file) {
  constexpr std::array<int64_t, 7> samples = {1, 0, 3, 1, 2, 0, 4};  // by colour type
  return int64_t{file[depth_at]} * (file[kind_at] < samples.size() ? samples[file[kind_at]] : 0);
}

// Of the rows, each behind a byte that names its filter.
int64_t compressed_content(const ByteVector& file, int64_t width, int64_t height) {
  struct Pass {
    int64_t x, y, across, down;
  };
  constexpr std::array<Pass, 7> interlaced = {
      {{0, 0, 8, 8}, {4, 0, 8, 8}, {0, 4, 4, 8}, {2, 0, 4, 4}, {0, 2, 2, 4}, {1, 0, 2, 2}, {0, 1, 1, 2}}};
  constexpr std::array<Pass, 1> whole = {{{0, 0, 1, 1}}};
  const std::span<const Pass> passes =
      file[interlaced_at] != 0 ? std::span<const Pass>(interlaced) : std::span<const Pass>(whole);
  int64_t bytes = 0;
  for (const Pass& pass : passes) {
    const int64_t columns = ceil_div(width - pass.x, pass.across), rows = ceil_div(height - pass.y, pass.down);
    if (columns > 0 && rows > 0) bytes += rows * (1 + (columns * bits_per_pixel(file) + 7) / 8);
  }
  return bytes;
}

// Whether that many bytes come out; none are kept.
bool inflates_to(const std::string& path, const std::vector<Content>& chunks, int64_t bytes) {
  ByteVector compressed;
  for (const Content& chunk : chunks) compressed.insert(compressed.end(), chunk.begin(), chunk.end());
  Inflater inflater(compressed, Inflater::Format::zlib, "image", path);
  constexpr size_t piece = size_t{1} << 16;
  for (ByteVector out; bytes > 0; bytes -= static_cast<int64_t>(out.size())) {
    out.clear();
    inflater.fill(out, piece);
    if (out.empty()) return false;
  }
  return true;
}

// A header is not believed: deflate makes at most 1032 bytes of one, and where few bytes say that they are a large
// image, that is tried before memory is taken for it.
bool holds(const std::string& path, const std::vector<Content>& chunks, int64_t content, int64_t pixel_bytes) {
  constexpr int64_t most_inflation = 1032, large = int64_t{1} << 24, many_times = 32;
  int64_t compressed = 0;
  for (const Content& chunk : chunks) compressed += static_cast<int64_t>(chunk.size());
  if (content > compressed * most_inflation) return false;
  const bool suspect = pixel_bytes > large && pixel_bytes / many_times > compressed;
  return !suspect || inflates_to(path, chunks, content);
}

}  // namespace

Pixels decode_png(const std::string& path, const ByteVector& file, int channels) {
  const std::vector<Content> chunks = pixel_chunks(path, file);
  PngImage image;
  if (png_image_begin_read_from_memory(&image, file.data(), file.size()) == 0) fail_png(path, image.message);
  check_image_size(path, image.width, image.height);
  image.flags |= PNG_IMAGE_FLAG_16BIT_sRGB;  // else samples of 16 bits are taken for linear light
  if (channels == 0) channels = (image.format & PNG_FORMAT_FLAG_COLOR) != 0 ? 3 : 1;
  const int64_t content = compressed_content(file, image.width, image.height),
                pixel_bytes = int64_t{image.width} * image.height * channels;
  if (!holds(path, chunks, content, pixel_bytes)) fail_not_held(path, file.size(), image.width, image.height);
  image.format = channels == 3 ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY;
  std::vector<std::byte> pixels(PNG_IMAGE_SIZE(image));
  const png_color black{0, 0, 0};
  if (png_image_finish_read(&image, &black, pixels.data(), 0, nullptr) == 0) fail_png(path, image.message);
  // A warning of the decoder: what is missing was filled up.
  if (PNG_IMAGE_FAILED(image) || (image.warning_or_error & PNG_IMAGE_WARNING) != 0) fail_png(path, image.message);
  return {std::move(pixels), image.height, image.width, channels};
}

std::string encode_png(const std::string& path, const std::vector<uint8_t>& interleaved, int64_t width, int64_t height,
                       int channels) {
  PngImage image;
  image.width = static_cast<uint32_t>(width);
  image.height = static_cast<uint32_t>(height);
  image.format = channels == 3 ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY;
  std::string file(PNG_IMAGE_PNG_SIZE_MAX(image), '\0');
  png_alloc_size_t bytes = file.size();
  if (png_image_write_to_memory(&image, file.data(), &bytes, 0, interleaved.data(), 0, nullptr) == 0)
    fail_png(path, image.message);
  file.resize(bytes);
  return file;
}

#else

namespace {

[[noreturn]] void lacks(const std::string& path) {
  throw IoError(
      fmt::format("[image] {}: this build of Heddle has no libpng, so it neither reads nor writes PNG files; install "
                  "libpng-dev and build again",
                  path));
}

}  // namespace

Pixels decode_png(const std::string& path, const std::vector<uint8_t>&, int) { lacks(path); }
std::string encode_png(const std::string& path, const std::vector<uint8_t>&, int64_t, int64_t, int) { lacks(path); }

#endif

}  // namespace heddle::data
