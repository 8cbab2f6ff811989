// What decodes and encodes the bytes of one image file: libpng (data/image_png.cpp) and libjpeg-turbo
// (data/image_jpeg.cpp).
//
// Invariants: pixels lie as (height, width, channels). A build without the library (cmake/codecs.cmake) has the
// function, which throws IoError and names what is missing. Errors: as in data/image_file.h. Thread safety: may be
// called from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace heddle::data {

struct Pixels {
  std::vector<std::byte> interleaved;
  int64_t height = 0, width = 0;
  int channels = 0;  // 1 or 3
};

// `channels`: 1, 3, or 0 for what the file has. `path` is for messages.
Pixels decode_png(const std::string& path, const std::vector<uint8_t>& file, int channels);
Pixels decode_jpeg(const std::string& path, const std::vector<uint8_t>& file, int channels);
std::string encode_png(const std::string& path, const std::vector<uint8_t>& interleaved, int64_t width, int64_t height,
                       int channels);

constexpr int64_t most_pixels = int64_t{1} << 27;
// IoError: a header says more pixels than a file of so many bytes can hold.
[[noreturn]] void fail_not_held(const std::string& path, size_t file_bytes, int64_t width, int64_t height);
// IoError unless both are positive and their product is at most 2^27.
void check_image_size(const std::string& path, int64_t width, int64_t height);

}  // namespace heddle::data
