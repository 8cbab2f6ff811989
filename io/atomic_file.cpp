#include "heddle/io/atomic_file.h"

#include <fmt/format.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <vector>

#include "heddle/core/base/error.h"
#include "heddle/core/base/files.h"
#include "heddle/core/base/folders.h"
#include "heddle/core/base/path.h"
#include "heddle/core/base/system/machine.h"

namespace heddle {
namespace {

[[noreturn]] void fail(const std::string& path, const char* doing) {
  throw IoError(fmt::format("[write] {}: cannot {}: {}", path, doing, std::strerror(errno)));
}

// The rename itself reaches the disk with its folder; a file system that cannot do that keeps the order anyway.
void flush_folder(const std::string& path) {
  const fs::path parent = fs::path(path).parent_path();
  os::flush_folder(parent.empty() ? "." : parent.string());
}

}  // namespace

AtomicFile::AtomicFile(const std::string& path) : target_(path) {
  static std::atomic<uint64_t> counter{0};
  do {
    name_ = fmt::format("{}.tmp-{}-{}", path, os::process_id(), counter++);
    descriptor_ = open_file(name_, FileAccess::create);
  } while (descriptor_ < 0 && errno == EEXIST);
  if (descriptor_ < 0) fail(path, "create a file in its folder");
}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0) os::close_file(descriptor_);
  if (!renamed_) os::remove_file(name_);
}

void AtomicFile::write(const FilePart& part) {
  if (!write_fully(descriptor_, part.data, part.bytes)) fail(target_, "write");
}

void AtomicFile::publish() {
  if (!os::flush_file(descriptor_)) fail(target_, "flush to disk");
  const int descriptor = descriptor_;
  descriptor_ = -1;
  if (!os::close_file(descriptor)) fail(target_, "close");
  if (!os::replace_file(name_, target_)) fail(target_, "rename into place");
  renamed_ = true;
  flush_folder(target_);
}

void write_file_atomically(const std::string& path, std::span<const FilePart> parts) {
  AtomicFile file(path);
  for (const FilePart& part : parts) file.write(part);
  file.publish();
}

void write_file_atomically(const std::string& path, std::string_view text) {
  const FilePart part{text.data(), text.size()};
  write_file_atomically(path, std::span<const FilePart>(&part, 1));
}

std::string_view finished_name(std::string_view name) {
  const auto cut_number = [&] {
    const size_t digits = name.find_last_not_of("0123456789") + 1;
    const bool any = digits < name.size();
    name = name.substr(0, digits);
    return any;
  };
  const auto cut = [&](std::string_view end) {
    if (!name.ends_with(end)) return false;
    name.remove_suffix(end.size());
    return true;
  };
  return cut_number() && cut("-") && cut_number() && cut(".tmp-") ? name : std::string_view();
}

void remove_unfinished(const std::string& folder, bool (*mine)(std::string_view name)) {
  std::error_code ignored;
  for (const std::string& name : names_in(folder, ignored)) {
    const std::string_view finished = finished_name(name);
    if (!finished.empty() && (!mine || mine(finished))) os::remove_file(folder + '/' + name);
  }
}

void require_writable_folder(const std::string& folder) {
  std::error_code code;
  if (fs::exists(folder, code) && !fs::is_directory(folder, code))
    throw IoError(fmt::format("[write] {}: is not a folder", folder));
  fs::create_directories(folder, code);
  if (code) throw IoError(fmt::format("[write] {}: cannot create the folder: {}", folder, code.message()));
  const AtomicFile probe((fs::path(folder) / ".heddle-probe").string());
}

}  // namespace heddle
