// One launch of a hand-written body over the operands of a vertex. Internal to the lower_*.cpp of bodies.
//
// Thread safety: pure.
#pragma once

#include <cstdint>
#include <vector>

#include "heddle/core/dialect/kernel_file.h"
#include "heddle/core/lower/lower_input.h"

namespace heddle {

struct BodyLaunch {
  const KernelFile& file;
  KernelFile::Options options;
  std::vector<int64_t> constants;  // in the file's order
  int64_t iterations = 0;          // of one work item
};

// The kernel: inputs as the vertex has them, then the result, which goes wherever the planner put the vertex.
LoweredKernel assemble(const LowerInput& in, const BodyLaunch& launch);

}  // namespace heddle
