// FullPlan: the pending graph all the way to its kernels and their memory, for who draws it (tools/dump_draw.h).
// Thread safety: looks at the calling thread's pending work only.
#pragma once

#include <string>
#include <vector>

#include "heddle/core/inspect/traffic.h"
#include "heddle/core/memory/memory_report.h"
#include "heddle/core/run/planner.h"

namespace heddle {

struct FullPlan {
  std::string device;
  Graph recorded;
  Graph prepared;  // what is scheduled
  Plan plan;
  std::vector<KernelFacts> kernels;  // with lines; parallel to plan.kernels
  MemoryReport report;
};
// Errors as plan_pending() (core/compile/dump.h).
FullPlan plan_pending_in_full();

}  // namespace heddle
