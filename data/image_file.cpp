#include "data/image_file.h"

#include <fmt/format.h>
#include <png.h>
#include <turbojpeg.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <memory>

#include "core/base/error.h"
#include "io/atomic_file.h"
#include "io/read_file.h"

namespace heddle::data {
namespace {

namespace fs = std::filesystem;
using Bytes = std::vector<uint8_t>;

constexpr int64_t most_pixels = int64_t{1} << 28;

[[noreturn]] void fail(const std::string& path, const std::string& why) { throw IoError(fmt::format("[image] {}: {}", path, why)); }

void check_size(const std::string& path, int64_t width, int64_t height) {
  if (width < 1 || height < 1 || width * height > most_pixels) fail(path, fmt::format("{} x {} pixels; at most 2^28 are read", width, height));
}

// (height, width, channels) to (channels, height, width).
Array planes(const Bytes& interleaved, int64_t height, int64_t width, int channels) {
  Array image{DType::u8, Shape{channels, height, width}, std::vector<std::byte>(interleaved.size())};
  const int64_t pixels = height * width;
  for (int c = 0; c < channels; ++c) {
    for (int64_t i = 0; i < pixels; ++i) image.bytes[static_cast<size_t>(c * pixels + i)] = static_cast<std::byte>(interleaved[static_cast<size_t>(i * channels + c)]);
  }
  return image;
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

Array decode_png(const std::string& path, const Bytes& file, int channels) {
  PngImage image;
  if (png_image_begin_read_from_memory(&image, file.data(), file.size()) == 0) fail(path, image.message);
  check_size(path, image.width, image.height);
  if (channels == 0) channels = (image.format & PNG_FORMAT_FLAG_COLOR) != 0 ? 3 : 1;
  image.format = channels == 3 ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY;
  Bytes pixels(PNG_IMAGE_SIZE(image));
  const png_color black{0, 0, 0};
  if (png_image_finish_read(&image, &black, pixels.data(), 0, nullptr) == 0) fail(path, image.message);
  // A warning of the decoder: what is missing was filled up.
  if (PNG_IMAGE_FAILED(image) || (image.warning_or_error & PNG_IMAGE_WARNING) != 0) fail(path, image.message);
  return planes(pixels, image.height, image.width, channels);
}

struct CloseJpeg {
  void operator()(void* handle) const { tjDestroy(handle); }
};

Array decode_jpeg(const std::string& path, const Bytes& file, int channels) {
  const std::unique_ptr<void, CloseJpeg> decoder(tjInitDecompress());
  if (!decoder) fail(path, "libjpeg-turbo could not be started");
  int width = 0, height = 0, sampling = 0, colours = 0;
  if (tjDecompressHeader3(decoder.get(), file.data(), file.size(), &width, &height, &sampling, &colours) != 0) fail(path, tjGetErrorStr2(decoder.get()));
  check_size(path, width, height);
  if (channels == 0) channels = colours == TJCS_GRAY ? 1 : 3;
  Bytes pixels(static_cast<size_t>(width) * static_cast<size_t>(height) * static_cast<size_t>(channels));
  // Warnings too: a file that was cut short is filled up with grey.
  const int flags = TJFLAG_ACCURATEDCT | TJFLAG_STOPONWARNING;
  if (tjDecompress2(decoder.get(), file.data(), file.size(), pixels.data(), width, 0, height, channels == 3 ? TJPF_RGB : TJPF_GRAY, flags) != 0) {
    fail(path, tjGetErrorStr2(decoder.get()));
  }
  return planes(pixels, height, width, channels);
}

bool is_image_name(const fs::path& path) {
  std::string end = path.extension().string();
  std::transform(end.begin(), end.end(), end.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return end == ".png" || end == ".jpg" || end == ".jpeg";
}

std::vector<fs::path> sorted_entries(const fs::path& folder) {
  std::error_code code;
  std::vector<fs::path> entries;
  for (fs::directory_iterator at(folder, code), end; !code && at != end; at.increment(code)) entries.push_back(at->path());
  if (code) fail(folder.string(), code.message());
  std::sort(entries.begin(), entries.end());
  return entries;
}

}  // namespace

Array read_image(const std::string& path, int channels) {
  if (channels != 0 && channels != 1 && channels != 3) throw ValueError(fmt::format("[image] {} channels; expected 1, 3, or 0 for what the file has", channels));
  const Bytes file = read_file(path, "image");
  if (file.size() >= 8 && png_sig_cmp(file.data(), 0, 8) == 0) return decode_png(path, file, channels);
  if (file.size() >= 2 && file[0] == 0xff && file[1] == 0xd8) return decode_jpeg(path, file, channels);
  fail(path, "neither a PNG nor a JPEG file");
}

void write_png(const std::string& path, const Array& pixels) {
  const Shape& shape = pixels.shape;
  if (pixels.dtype != DType::u8 || shape.rank() != 3 || (shape[0] != 1 && shape[0] != 3)) {
    throw ShapeError(fmt::format("[image] pixels are {} {}, expected u8 (1 or 3, height, width)", shape.str(), name_of(pixels.dtype)));
  }
  pixels.require_whole("image");
  check_size(path, shape[2], shape[1]);
  const int64_t channels = shape[0], count = shape[1] * shape[2];
  Bytes interleaved(pixels.bytes.size());
  for (int64_t c = 0; c < channels; ++c) {
    for (int64_t i = 0; i < count; ++i) interleaved[static_cast<size_t>(i * channels + c)] = static_cast<uint8_t>(pixels.bytes[static_cast<size_t>(c * count + i)]);
  }
  PngImage image;
  image.width = static_cast<uint32_t>(shape[2]);
  image.height = static_cast<uint32_t>(shape[1]);
  image.format = channels == 3 ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY;
  Bytes file(PNG_IMAGE_PNG_SIZE_MAX(image));
  png_alloc_size_t bytes = file.size();
  if (png_image_write_to_memory(&image, file.data(), &bytes, 0, interleaved.data(), 0, nullptr) == 0) fail(path, image.message);
  write_file_atomically(path, std::string_view(reinterpret_cast<const char*>(file.data()), bytes));
}

ImageFolder::ImageFolder(const std::string& folder, int channels) : channels_(channels) {
  std::error_code code;
  if (!fs::is_directory(folder, code)) fail(folder, "no such folder");
  for (const fs::path& entry : sorted_entries(folder)) {
    if (!fs::is_directory(entry, code)) continue;
    const size_t before = files_.size();
    for (const fs::path& file : sorted_entries(entry)) {
      if (is_image_name(file)) files_.push_back({file.string(), static_cast<int32_t>(classes_.size())});
    }
    if (files_.size() == before) fail(entry.string(), "the folder of a class has no .png, .jpg or .jpeg file");
    classes_.push_back(entry.filename().string());
  }
  if (files_.empty()) fail(folder, "no folders of classes with images in them");
}

Sample ImageFolder::get(int64_t index, Random&) const {
  const File& file = files_.at(static_cast<size_t>(index));
  return {read_image(file.path, channels_), Array::scalar(file.label)};
}

}  // namespace heddle::data
