// Segments bound to memory: how many launches they take, and the table that the launches read.
//
// Invariants: every segment is in exactly one launch; a launch's covers contain the ranges of its segments, lie in one buffer each and are no
// longer than a binding may be. Thread safety: pure functions.
#pragma once

#include "core/lower/lower.h"

namespace heddle {

struct SegmentLaunch {
  std::vector<Binding> covers;   // per buffer of the kernel, but for the table
  std::vector<size_t> segments;  // indices into the kernel's
  int64_t groups = 0;
};

// `bound[s]` are the bindings of segment s. LimitError when a tensor is longer than a binding may be.
std::vector<SegmentLaunch> cover_segments(const LoweredKernel& kernel, const std::vector<std::vector<Binding>>& bound, const Caps& caps);
// The table of one launch: see make_segmented().
std::vector<int32_t> segment_table(const LoweredKernel& kernel, const std::vector<std::vector<Binding>>& bound, const SegmentLaunch& launch);

}  // namespace heddle
