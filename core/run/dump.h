// Prints what this thread has recorded and not yet computed, without computing it.
// Thread safety: looks at the calling thread's pending work only.
#pragma once

#include <string>

#include "core/inspect/traffic.h"
#include "core/memory/memory_report.h"
#include "core/run/planner.h"

namespace heddle {

enum class DumpWhat { graph, simplified, groups, source, plan, passes };

// The pending graph of each device: as recorded, simplified, as groups, as kernel sources, its memory plan, or what
// each pass did. A device that takes no kernels (reference) only has graphs.
std::string dump_pending(DumpWhat what);

// The pending graph all the way to its kernels and their memory, for who draws it (tools/dump_html.h). Errors as
// plan_pending().
struct FullPlan {
  std::string device;
  Graph recorded;
  Graph prepared;  // what is scheduled
  Plan plan;
  std::vector<KernelFacts> kernels;  // with lines; parallel to step.kernels
  MemoryReport report;
};
FullPlan plan_pending_in_full();

// The memory report of the pending graph. ValueError unless all of it is on one device that takes kernels.
MemoryReport plan_pending();

}  // namespace heddle
