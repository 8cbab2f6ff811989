// Whether a graph is one: run between passes, so that a faulty rewrite is named where it happened.
//
// Purpose: inputs come before their users, shapes and dtypes agree with each op's rule, leaves and outputs are those
// the user recorded. Invariants: costs a few nanoseconds a vertex, so it always runs. Thread safety: pure functions.
#pragma once

#include <string_view>

#include "heddle/core/ir/ir.h"

namespace heddle {

// std::logic_error that names `pass` and the vertex. `before`: the graph that the pass was given.
void verify_graph(const Graph& graph, const Graph& before, std::string_view pass);

}  // namespace heddle
