// Early cuts: where a graph becomes several submissions, so that each early output ends one.
//
// Invariants: an output that ends with the graph needs no cut. Thread safety: pure function.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "heddle/core/memory/plan.h"

namespace heddle {

struct EarlyCuts {
  std::vector<int32_t> cuts;     // GraphImage::cuts
  std::vector<size_t> segments;  // by ScheduledGraph::early: the one that ends it
};
// `kernels`: of the plan, by launch.
EarlyCuts early_cuts(const Plan& plan, const std::vector<size_t>& kernels);

}  // namespace heddle
