// Lines of tests, and those that nodes keep, as texts.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "heddle/core/graph/node.h"
#include "heddle/core/graph/tensor.h"

namespace heddle::test {

// "place_test.cpp:42" of the line and the file that call it.
inline std::string here(uint32_t line = __builtin_LINE(), const char* file = __builtin_FILE()) {
  return std::filesystem::path(file).filename().string() + ":" + std::to_string(line);
}

inline std::string place(const Tensor& t) { return t.node()->where.str(); }

}  // namespace heddle::test
