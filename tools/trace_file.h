// A profile as a trace: what Perfetto (ui.perfetto.dev) and chrome://tracing draw.
//
// Purpose: `--trace FILE`. Trace Event Format, complete events ("X") in microseconds: process 0 is the host, one track
// per thread, with the spans record, capture, plan, compile, submit and wait; every device is a process with one track,
// on which the kernels of a submission lie inside it. Invariants: events of a track are nested or apart, and sorted by
// their start. Thread safety: pure.
#pragma once

#include <string>

#include "heddle/core/inspect/profile.h"

namespace heddle::tools {

std::string trace_json(const Profile& profile);

}  // namespace heddle::tools
