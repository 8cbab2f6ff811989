// Joined rows bound to memory: how many launches they take, and the table that the launches read.
//
// Invariants: every row is in exactly one launch; a launch's covers contain the ranges of its rows, lie in one buffer
// each and are no longer than a binding may be. Thread safety: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "heddle/core/contract/device.h"
#include "heddle/core/run/image.h"

namespace heddle {

struct JoinedLaunch {
  std::vector<Binding> covers;  // per buffer of the kernel, but for the table
  std::vector<size_t> rows;     // indices
  int64_t groups = 0;
};

using JoinedRows = std::span<const GraphImage::JoinedRow>;
// `bound[r]` are the bindings of row r. `in_order`: no row is in an earlier launch than one before it, and a launch has
// at most most_rows_in_order (shaders/prelude.parts counts links in 24 bits). LimitError when a tensor is longer than a
// binding may be.
constexpr size_t most_rows_in_order = 1 << 16;
std::vector<JoinedLaunch> cover_joined(const KernelSignature& kernel, JoinedRows rows,
                                       const std::vector<std::vector<Binding>>& bound, const Caps& caps,
                                       bool in_order = false);
// The table of one launch: see make_joined() (core/lower/horizontal.h).
std::vector<int32_t> joined_table(const KernelSignature& kernel, JoinedRows rows,
                                  const std::vector<std::vector<Binding>>& bound, const JoinedLaunch& launch);

}  // namespace heddle
