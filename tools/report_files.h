// The parts of the page of `heddle report`: tools/report/*.css and *.js, embedded by CMake (tools/CMakeLists.txt).
// Thread safety: the table is built once and never changes.
#pragma once

#include "heddle/core/dialect/builtin_files.h"

namespace heddle {

const std::vector<BuiltinFile>& report_files();

}  // namespace heddle
