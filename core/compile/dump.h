// Prints what this thread has recorded and not yet computed, without computing it.
// Thread safety: looks at the calling thread's pending work only.
#pragma once

#include <cstdint>
#include <string>

#include "heddle/core/memory/memory_report.h"

namespace heddle {

enum class DumpWhat { graph, simplified, groups, source, plan, passes };

// The pending graph of each device: as recorded, simplified, as groups, as kernel sources, its memory plan, or what
// each pass did. A device that takes no kernels (reference) only has graphs.
std::string dump_pending(DumpWhat what);

// The memory report of the pending graph. ValueError unless all of it is on one device that takes kernels.
MemoryReport plan_pending();

}  // namespace heddle
