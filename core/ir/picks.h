// Takes and gathers of more than a binding covers. Thread safety: pure functions.
#pragma once

#include <cstdint>

#include "heddle/core/ir/ir.h"

namespace heddle {

// Whether the vertex picks rows or elements of a value that takes more than so many bytes. It is then a kernel of its
// own, cut by what is picked (core/lower/sections.h).
bool picks_beyond(const Graph& graph, int vertex, uint64_t bytes);

}  // namespace heddle
