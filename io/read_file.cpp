#include "heddle/io/read_file.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>

#include "heddle/core/base/error.h"
#include "heddle/core/base/files.h"
#include "heddle/core/base/path.h"

namespace heddle {
namespace {

template <class Content>
Content contents(const std::string& path, std::string_view who) {
  std::error_code code;
  const auto kind = fs::status(path, code).type();
  if (kind == fs::file_type::not_found) throw IoError(fmt::format("[{}] {}: no such file", who, path));
  if (kind == fs::file_type::directory) throw IoError(fmt::format("[{}] {}: is a folder, expected a file", who, path));
  Content content;
  if (!read_contents(path, content))
    throw IoError(fmt::format("[{}] {}: cannot be read: {}", who, path, std::strerror(errno)));
  return content;
}

}  // namespace

std::vector<uint8_t> read_file(const std::string& path, std::string_view who) {
  return contents<std::vector<uint8_t>>(path, who);
}

std::string read_text_file(const std::string& path, std::string_view who) { return contents<std::string>(path, who); }

}  // namespace heddle
