// Declarations: on PoCL a kernel is built with shaders/prelude.pocl in place of clang's header of all functions of
// OpenCL C (program.cpp). A kernel that calls another function is built a second time with that header: this counts
// them, for tests. Thread safety: any thread.
#pragma once

#include <cstddef>
#include <vector>

#include "heddle/core/dialect/builtin_files.h"

namespace heddle {

// shaders/prelude.pocl, embedded by CMake beside the loader.
const std::vector<BuiltinFile>& opencl_declarations();
// Kernels of this process that were built with the whole header after an attempt without it.
size_t opencl_builds_with_whole_header();

}  // namespace heddle
