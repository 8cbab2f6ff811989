// What this thread holds pending, planned as the library plans a step: the tests of the planner take no way of their
// own. Thread safety: uses the thread's pending operations.
#pragma once

#include "heddle/core/graph/pending.h"
#include "heddle/core/record/capture.h"
#include "heddle/core/record/import_graph.h"
#include "heddle/core/run/planner.h"
#include "heddle/core/simplify/simplifier.h"

namespace heddle::test {

inline Graph imported_pending() { return import_graph(capture(held_pending())); }

inline Graph prepared_pending(const Caps& caps, bool fuse = true, PassSet passes = PassSet::all()) {
  return prepare(imported_pending(), caps, fuse, passes);
}

inline Plan planned_pending(const Caps& caps, bool fuse = true, PassSet passes = PassSet::all()) {
  return make_plan(prepared_pending(caps, fuse, passes), caps, fuse, passes);
}

// The same device as a CPU's OpenCL driver, where lanes are iterations of loops.
inline Caps with_loop_lanes(Caps caps) {
  caps.device_class = DeviceClass::cpu;
  caps.target = Target::opencl;
  return caps;
}

}  // namespace heddle::test
