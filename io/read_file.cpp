#include "io/read_file.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "core/base/error.h"

namespace heddle {
namespace {

template <class Content>
Content contents(const std::string& path, std::string_view who) {
  std::error_code code;
  const auto kind = std::filesystem::status(path, code).type();
  if (kind == std::filesystem::file_type::not_found) throw IoError(fmt::format("[{}] {}: no such file", who, path));
  if (kind == std::filesystem::file_type::directory) throw IoError(fmt::format("[{}] {}: is a folder, expected a file", who, path));
  std::ifstream in(path, std::ios::binary);
  if (!in) throw IoError(fmt::format("[{}] {}: cannot be opened: {}", who, path, std::strerror(errno)));
  Content content;
  const auto size = std::filesystem::file_size(path, code);  // a pipe says none, nor does a file that was removed meanwhile
  const size_t piece = code ? size_t{1} << 20 : static_cast<size_t>(size) + 1;
  while (in) {
    const size_t before = content.size();
    content.resize(before + piece);
    in.read(reinterpret_cast<char*>(content.data() + before), static_cast<std::streamsize>(piece));
    content.resize(before + static_cast<size_t>(in.gcount()));
  }
  if (in.bad()) throw IoError(fmt::format("[{}] {}: cannot be read: {}", who, path, std::strerror(errno)));
  return content;
}

}  // namespace

std::vector<uint8_t> read_file(const std::string& path, std::string_view who) { return contents<std::vector<uint8_t>>(path, who); }

std::string read_text_file(const std::string& path, std::string_view who) { return contents<std::string>(path, who); }

}  // namespace heddle
