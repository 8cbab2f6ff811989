// JPEG through libjpeg-turbo; a build without it says so.
#include <fmt/format.h>
#ifdef HEDDLE_HAS_JPEG
#include <turbojpeg.h>
#endif

#include <memory>
#include <utility>

#include "core/base/error.h"
#include "data/image_codecs.h"

namespace heddle::data {

#ifdef HEDDLE_HAS_JPEG

namespace {

[[noreturn]] void fail(const std::string& path, const std::string& why) { throw IoError(fmt::format("[image] {}: {}", path, why)); }

struct CloseJpeg {
  void operator()(void* handle) const { tjDestroy(handle); }
};

}  // namespace

Pixels decode_jpeg(const std::string& path, const std::vector<uint8_t>& file, int channels) {
  const std::unique_ptr<void, CloseJpeg> decoder(tjInitDecompress());
  if (!decoder) fail(path, "libjpeg-turbo could not be started");
  int width = 0, height = 0, sampling = 0, colours = 0;
  if (tjDecompressHeader3(decoder.get(), file.data(), file.size(), &width, &height, &sampling, &colours) != 0) fail(path, tjGetErrorStr2(decoder.get()));
  check_image_size(path, width, height);
  if (channels == 0) channels = colours == TJCS_GRAY ? 1 : 3;
  std::vector<uint8_t> pixels(static_cast<size_t>(width) * static_cast<size_t>(height) * static_cast<size_t>(channels));
  // Warnings too: a file that was cut short is filled up with grey.
  const int flags = TJFLAG_ACCURATEDCT | TJFLAG_STOPONWARNING;
  if (tjDecompress2(decoder.get(), file.data(), file.size(), pixels.data(), width, 0, height, channels == 3 ? TJPF_RGB : TJPF_GRAY, flags) != 0) {
    fail(path, tjGetErrorStr2(decoder.get()));
  }
  return {std::move(pixels), height, width, channels};
}

#else

Pixels decode_jpeg(const std::string& path, const std::vector<uint8_t>&, int) {
  throw IoError(fmt::format("[image] {}: this build of Heddle has no libjpeg-turbo, so it reads no JPEG files; install libturbojpeg0-dev and build again", path));
}

#endif

}  // namespace heddle::data
