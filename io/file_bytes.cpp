#include "heddle/io/file_bytes.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "heddle/core/base/error.h"
#include "heddle/core/base/files.h"
#include "heddle/core/base/system/mapping.h"

namespace heddle {
namespace {

// The file is looked at before it is opened: opening a FIFO waits for a writer.
void require_regular(const std::string& path, std::string_view who) {
  const std::optional<os::FileFacts> facts = os::facts_of(path);
  if (!facts)
    throw IoError(fmt::format("[{}] {}: {}", who, path, errno == ENOENT ? "no such file" : std::strerror(errno)));
  if (facts->folder) throw IoError(fmt::format("[{}] {}: is a folder, expected a file", who, path));
  if (!facts->regular) throw IoError(fmt::format("[{}] {}: is no regular file", who, path));
}

[[noreturn]] void fail(const std::string& path, std::string_view who, const char* what) {
  throw IoError(fmt::format("[{}] {}: cannot be {}: {}", who, path, what, std::strerror(errno)));
}

}  // namespace

FileBytes::~FileBytes() {
  if (mapped_ && !bytes_.empty()) os::unmap_file(bytes_.data(), bytes_.size());
}

FileBytes::FileBytes(FileBytes&& other) noexcept
    : own_(std::move(other.own_)),
      bytes_(std::exchange(other.bytes_, {})),
      mapped_(std::exchange(other.mapped_, false)) {}

FileBytes& FileBytes::operator=(FileBytes&& other) noexcept {
  std::swap(own_, other.own_);
  std::swap(bytes_, other.bytes_);
  std::swap(mapped_, other.mapped_);
  return *this;
}

FileBytes FileBytes::read(const std::string& path, std::string_view who) {
  require_regular(path, who);
  std::vector<uint8_t> bytes;
  if (!read_contents(path, bytes)) fail(path, who, "read");
  return of(std::move(bytes));
}

FileBytes FileBytes::map(const std::string& path, std::string_view who) {
  require_regular(path, who);
  const Descriptor file(open_file(path, FileAccess::read));
  if (!file) fail(path, who, "read");
  const std::optional<os::FileFacts> facts = os::facts_of(file.number());
  if (!facts) fail(path, who, "read");
  FileBytes result;
  result.mapped_ = true;
  if (facts->bytes == 0) return result;
  const void* const mapping = os::map_file(file.number(), facts->bytes);
  if (mapping == nullptr) fail(path, who, "mapped");
  result.bytes_ = {static_cast<const uint8_t*>(mapping), static_cast<size_t>(facts->bytes)};
  return result;
}

FileBytes FileBytes::of(std::vector<uint8_t> bytes) {
  FileBytes result;
  result.own_ = std::move(bytes);
  result.bytes_ = result.own_;
  return result;
}

}  // namespace heddle
