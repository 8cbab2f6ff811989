// PNG through libpng; a build without it says so.
#include <fmt/format.h>
#ifdef HEDDLE_HAS_PNG
#include <png.h>
#endif

#include <array>
#include <cstring>
#include <utility>

#include "core/base/error.h"
#include "data/image_codecs.h"

namespace heddle::data {

#ifdef HEDDLE_HAS_PNG

namespace {

[[noreturn]] void fail(const std::string& path, const std::string& why) { throw IoError(fmt::format("[image] {}: {}", path, why)); }

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

// The most pixels that a PNG of this many bytes and this kind can hold: deflate makes at most 1032 bytes of one. The header is the first chunk, always.
int64_t most_png_pixels(const std::vector<uint8_t>& file) {
  constexpr size_t depth_at = 24, kind_at = 25;
  if (file.size() <= kind_at) return 0;
  constexpr std::array<int64_t, 7> samples = {1, 0, 3, 1, 2, 0, 4};  // by colour type
  const int64_t bits = int64_t{file[depth_at]} * (file[kind_at] < samples.size() ? samples[file[kind_at]] : 0);
  return bits == 0 ? 0 : static_cast<int64_t>(file.size()) * 1032 * 8 / bits;
}

}  // namespace

Pixels decode_png(const std::string& path, const std::vector<uint8_t>& file, int channels) {
  PngImage image;
  if (png_image_begin_read_from_memory(&image, file.data(), file.size()) == 0) fail(path, image.message);
  check_image_size(path, image.width, image.height);
  check_image_held(path, file.size(), image.width, image.height, most_png_pixels(file));
  if (channels == 0) channels = (image.format & PNG_FORMAT_FLAG_COLOR) != 0 ? 3 : 1;
  image.format = channels == 3 ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY;
  std::vector<uint8_t> pixels(PNG_IMAGE_SIZE(image));
  const png_color black{0, 0, 0};
  if (png_image_finish_read(&image, &black, pixels.data(), 0, nullptr) == 0) fail(path, image.message);
  // A warning of the decoder: what is missing was filled up.
  if (PNG_IMAGE_FAILED(image) || (image.warning_or_error & PNG_IMAGE_WARNING) != 0) fail(path, image.message);
  return {std::move(pixels), image.height, image.width, channels};
}

std::string encode_png(const std::string& path, const std::vector<uint8_t>& interleaved, int64_t width, int64_t height, int channels) {
  PngImage image;
  image.width = static_cast<uint32_t>(width);
  image.height = static_cast<uint32_t>(height);
  image.format = channels == 3 ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY;
  std::string file(PNG_IMAGE_PNG_SIZE_MAX(image), '\0');
  png_alloc_size_t bytes = file.size();
  if (png_image_write_to_memory(&image, file.data(), &bytes, 0, interleaved.data(), 0, nullptr) == 0) fail(path, image.message);
  file.resize(bytes);
  return file;
}

#else

namespace {

[[noreturn]] void lacks(const std::string& path) {
  throw IoError(fmt::format("[image] {}: this build of Heddle has no libpng, so it neither reads nor writes PNG files; install libpng-dev and build again", path));
}

}  // namespace

Pixels decode_png(const std::string& path, const std::vector<uint8_t>&, int) { lacks(path); }
std::string encode_png(const std::string& path, const std::vector<uint8_t>&, int64_t, int64_t, int) { lacks(path); }

#endif

}  // namespace heddle::data
