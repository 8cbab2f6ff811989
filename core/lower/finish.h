// The last step of a generated kernel: its source and its launch. Thread safety: one emitter is used by one thread.
#pragma once

#include <array>
#include <cstdint>

#include "heddle/core/lower/emit.h"
#include "heddle/core/lower/lower_input.h"

namespace heddle {

// Fills source and launch from the emitter's text; `groups` folded over two grid dimensions. A joined emitter gives a
// kernel of one joined row.
LoweredKernel finish(Emitter& emitter, const LowerInput& in, std::array<uint32_t, 3> lanes, int64_t groups);

}  // namespace heddle
