#include "heddle/data/image_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "heddle/core/base/ascii.h"
#include "heddle/core/base/error.h"
#include "heddle/core/base/folders.h"
#include "heddle/core/base/path.h"
#include "heddle/data/image_codecs.h"
#include "heddle/io/atomic_file.h"
#include "heddle/io/read_file.h"

namespace heddle::data {
namespace {

using ByteVector = std::vector<uint8_t>;

constexpr std::array<uint8_t, 8> png_signature = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};

[[noreturn]] void fail(const std::string& path, const std::string& why) {
  throw IoError(fmt::format("[image] {}: {}", path, why));
}

// (height, width, channels) to (channels, height, width).
Array planes(Pixels decoded) {
  const int64_t channels = decoded.channels, pixels = decoded.height * decoded.width;
  Array image{DType::u8, Shape{channels, decoded.height, decoded.width}, {}};
  if (channels == 1) {
    image.bytes = std::move(decoded.interleaved);
    return image;
  }
  image.bytes.resize(decoded.interleaved.size());
  for (int64_t c = 0; c < channels; ++c) {
    for (int64_t i = 0; i < pixels; ++i)
      image.bytes[static_cast<size_t>(c * pixels + i)] = decoded.interleaved[static_cast<size_t>(i * channels + c)];
  }
  return image;
}

std::vector<fs::path> sorted_entries(const fs::path& folder) {
  std::error_code code;
  std::vector<fs::path> entries;
  for (const std::string& name : names_in(folder.string(), code)) {
    if (!name.starts_with('.')) entries.push_back(folder / name);
  }
  if (code) fail(folder.string(), code.message());
  return entries;
}

}  // namespace

void check_image_size(const std::string& path, int64_t width, int64_t height) {
  if (width < 1 || height < 1 || width * height > most_pixels)
    fail(path, fmt::format("{} x {} pixels; at most 2^27 are read", width, height));
}

void fail_not_held(const std::string& path, size_t file_bytes, int64_t width, int64_t height) {
  fail(path, fmt::format("its header says {} x {} pixels, which {} bytes cannot hold", width, height, file_bytes));
}

Array read_image(const std::string& path, int channels) {
  if (channels != 0 && channels != 1 && channels != 3)
    throw ValueError(fmt::format("[image] {} channels; expected 1, 3, or 0 for what the file has", channels));
  const ByteVector file = read_file(path, "image");
  if (file.size() >= 8 && std::equal(png_signature.begin(), png_signature.end(), file.begin()))
    return planes(decode_png(path, file, channels));
  if (file.size() >= 2 && file[0] == 0xff && file[1] == 0xd8) return planes(decode_jpeg(path, file, channels));
  fail(path, "neither a PNG nor a JPEG file");
}

void write_png(const std::string& path, const Array& pixels) {
  const Shape& shape = pixels.shape;
  if (pixels.dtype != DType::u8 || shape.rank() != 3 || (shape[0] != 1 && shape[0] != 3)) {
    throw ShapeError(fmt::format("[image] pixels are {} {}, expected u8 (1 or 3, height, width)", shape.str(),
                                 name_of(pixels.dtype)));
  }
  pixels.require_whole("image");
  check_image_size(path, shape[2], shape[1]);
  const int64_t channels = shape[0], count = shape[1] * shape[2];
  ByteVector interleaved(pixels.bytes.size());
  for (int64_t c = 0; c < channels; ++c) {
    for (int64_t i = 0; i < count; ++i)
      interleaved[static_cast<size_t>(i * channels + c)] =
          static_cast<uint8_t>(pixels.bytes[static_cast<size_t>(c * count + i)]);
  }
  write_file_atomically(path, encode_png(path, interleaved, shape[2], shape[1], static_cast<int>(channels)));
}

namespace {

std::string ending_of(std::string_view name) {
  std::string end = fs::path(name).extension().string();
  std::transform(end.begin(), end.end(), end.begin(), ascii_lower);
  return end;
}

}  // namespace

bool is_image_name(std::string_view name) {
  const std::string end = ending_of(name);
  return end == ".png" || end == ".jpg" || end == ".jpeg";
}

ImageFolderFiles list_image_folder(const std::string& folder) {
  std::error_code code;
  if (!fs::is_directory(folder, code)) fail(folder, "no such folder");
  ImageFolderFiles found;
  for (const fs::path& entry : sorted_entries(folder)) {
    if (!fs::is_directory(entry, code)) continue;
    const size_t before = found.files.size();
    for (const fs::path& file : sorted_entries(entry)) {
      if (is_image_name(file.string())) {
        found.files.push_back({file.string(), static_cast<int32_t>(found.classes.size())});
      } else {
        ++found.left_out[ending_of(file.string())];
      }
    }
    if (found.files.size() == before) fail(entry.string(), "the folder of a class has no .png, .jpg or .jpeg file");
    found.classes.push_back(entry.filename().string());
  }
  if (found.files.empty()) fail(folder, "no folders of classes with images in them");
  return found;
}

const ImageFiles::File& ImageFiles::file(int64_t index) const {
  if (index < 0 || index >= size())
    throw ValueError(fmt::format("[image] there is no image {} among {}", index, size()));
  return files_[static_cast<size_t>(index)];
}

Sample ImageFiles::get(int64_t index, Random&) const {
  const File& found = file(index);
  return {read_image(found.path, channels_), Array::scalar(found.label)};
}

}  // namespace heddle::data
