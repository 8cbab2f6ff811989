#include "heddle/core/tiles/inexact.h"

#include <cstdlib>
#include <string_view>

#include "heddle/core/base/print_error.h"

namespace heddle {

bool winograd_wanted() {
  static const bool wanted = [] {
    const char* value = std::getenv("HEDDLE_WINOGRAD");
    return !value || std::string_view(value) != "0";
  }();
  return wanted;
}

bool tf32_wanted() {
  static const bool wanted = [] {
    const char* given = std::getenv("HEDDLE_TF32");
    const std::string_view value = given ? given : "";
    if (value != "" && value != "0" && value != "1") {
      print_error("[matmul] HEDDLE_TF32 is '{}', expected 0 or 1: f32 operands are not rounded\n", value);
    }
    return value == "1";
  }();
  return wanted;
}

}  // namespace heddle
