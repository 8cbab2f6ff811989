#include "heddle/onnx/external.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>

#include "heddle/core/base/error.h"
#include "heddle/core/base/shortened.h"
#include "heddle/core/base/system/files.h"

namespace heddle::onnx {
namespace {

class Open {
 public:
  explicit Open(int opened) : descriptor(opened) {}
  ~Open() {
    if (descriptor >= 0) os::close_file(descriptor);
  }
  Open(const Open&) = delete;
  Open& operator=(const Open&) = delete;
  const int descriptor;
};

// What is wrong with a name; empty when nothing is.
std::string complaint(const std::string& location) {
  if (location.empty()) return "names no file";
  if (location.find('\0') != std::string::npos) return "has a zero byte in its name";
  if (location.front() == '/' || location.find('\\') != std::string::npos || location.find(':') != std::string::npos)
    return "is no path relative to the model";
  for (size_t at = 0; at <= location.size();) {
    const size_t end = std::min(location.find('/', at), location.size());
    const std::string part = location.substr(at, end - at);
    if (part.empty() || part == "." || part == "..") return "leaves the model's folder, or could";
    at = end + 1;
  }
  return "";
}

}  // namespace

std::string read_external(const ExternalData& data, const ExternalPlace& place, uint64_t bytes,
                          const std::string& who) {
  const auto fail = [&](const std::string& what) {
    throw IoError(fmt::format("[onnx] {}: external data '{}' {}", who, shortened(place.location), what));
  };
  const auto check_range = [&](uint64_t there) {
    if (place.offset > there || bytes > there - place.offset)
      fail(fmt::format("has {} bytes; {} from byte {} are asked for", there, bytes, place.offset));
    if (place.length && *place.length != bytes)
      fail(fmt::format("is said to hold {} bytes; the tensor's shape takes {}", *place.length, bytes));
  };
  if (!data.name.empty() && place.location == data.name) {
    check_range(data.memory.size());
    return {reinterpret_cast<const char*>(data.memory.data()) + place.offset, static_cast<size_t>(bytes)};
  }
  if (data.folder.empty()) fail("is not in the file");
  if (const std::string wrong = complaint(place.location); !wrong.empty()) fail(wrong);
  const Open file(os::open_beneath(data.folder, place.location));
  if (file.descriptor < 0)
    fail(errno == ELOOP || errno == ENOTDIR || errno == EMLINK || errno == EINVAL
             ? "is a link, has a second name, or is no regular file"
             : fmt::format("cannot be opened: {}", std::strerror(errno)));
  const std::optional<os::FileFacts> facts = os::facts_of(file.descriptor);
  if (!facts) fail("cannot be read");
  check_range(facts->bytes);
  std::string read(static_cast<size_t>(bytes), '\0');
  for (uint64_t at = 0; at < bytes;) {
    const int64_t got =
        os::read_at(file.descriptor, read.data() + at, static_cast<size_t>(bytes - at), place.offset + at);
    if (got <= 0) fail("ended while it was read");
    at += static_cast<uint64_t>(got);
  }
  return read;
}

}  // namespace heddle::onnx
