// Segments bound to memory: how many launches they take, and the table that the launches read.
//
// Invariants: every joined row is in exactly one launch; a launch's covers contain the ranges of its joined rows, lie
// in one buffer each and are no longer than a binding may be. Thread safety: pure functions.
#pragma once

#include "core/lower/lower.h"

namespace heddle {

struct JoinedLaunch {
  std::vector<Binding> covers;  // per buffer of the kernel, but for the table
  std::vector<size_t> joined;   // indices into the kernel's
  int64_t groups = 0;
};

// `bound[s]` are the bindings of joined row s. LimitError when a tensor is longer than a binding may be.
std::vector<JoinedLaunch> cover_joined(const LoweredKernel& kernel, const std::vector<std::vector<Binding>>& bound,
                                       const Caps& caps);
// The table of one launch: see make_joined().
std::vector<int32_t> joined_table(const LoweredKernel& kernel, const std::vector<std::vector<Binding>>& bound,
                                  const JoinedLaunch& launch);

}  // namespace heddle
