// The text of shaders/*.hk and of the preludes, embedded by CMake (cmake/embed.cmake).
// Thread safety: the table is built once and never changes.
#pragma once

#include <string_view>
#include <vector>

namespace heddle {

struct BuiltinFile {
  std::string_view name;  // "matmul.hk", "prelude.cl"
  std::string_view text;
};

const std::vector<BuiltinFile>& builtin_files();

}  // namespace heddle
