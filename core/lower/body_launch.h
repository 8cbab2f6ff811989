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
  bool divisible = false;          // along the rows of the result, its outermost dimension (core/lower/section.h)
  std::vector<size_t> by_rows{};   // inputs whose rows are those of the result
};

// A hand-written body reads its operands, and writes its result, from where the binding begins: LimitError where a
// section would be `offset` elements further.
void check_body_start(int64_t offset, const IrNode& node);

// The kernel: inputs as the vertex has them, then the result, which goes wherever the planner put the vertex.
LoweredKernel assemble(const LowerInput& in, const BodyLaunch& launch);

}  // namespace heddle
