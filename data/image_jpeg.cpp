// JPEG through libjpeg-turbo; a build without it says so.
#include <fmt/format.h>
#ifdef HEDDLE_HAS_JPEG
#include <turbojpeg.h>
#endif

#include <algorithm>
#include <memory>
#include <utility>

#include "heddle/core/base/error.h"
#include "heddle/data/image_codecs.h"

namespace heddle::data {

#ifdef HEDDLE_HAS_JPEG

namespace {

[[noreturn]] void fail(const std::string& path, const std::string& why) {
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

}  // namespace

Pixels decode_jpeg(const std::string& path, const std::vector<uint8_t>& file, int channels) {
  const std::unique_ptr<void, CloseJpeg> decoder(tjInitDecompress());
  if (!decoder) fail(path, "libjpeg-turbo could not be started");
  int width = 0, height = 0, sampling = 0, colours = 0;
  if (tjDecompressHeader3(decoder.get(), file.data(), file.size(), &width, &height, &sampling, &colours) != 0)
    fail(path, tjGetErrorStr2(decoder.get()));
  check_image_size(path, width, height);
  if (int64_t{width} * height > most_jpeg_pixels(file)) fail_not_held(path, file.size(), width, height);
  if (channels == 0) channels = colours == TJCS_GRAY ? 1 : 3;
  std::vector<std::byte> pixels(static_cast<size_t>(width) * static_cast<size_t>(height) *
                                static_cast<size_t>(channels));
  // Warnings too: a file that was cut short is filled up with grey.
  int flags = TJFLAG_ACCURATEDCT | TJFLAG_STOPONWARNING;
#ifdef TJFLAG_LIMITSCANS
  flags |= TJFLAG_LIMITSCANS;  // each of a progressive file's scans goes over the whole image: at most 500
#endif
  if (tjDecompress2(decoder.get(), file.data(), file.size(), reinterpret_cast<unsigned char*>(pixels.data()), width, 0,
                    height, channels == 3 ? TJPF_RGB : TJPF_GRAY, flags) != 0) {
    fail(path, tjGetErrorStr2(decoder.get()));
  }
  return {std::move(pixels), height, width, channels};
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
