// What each pass does to a graph, for people.
//
// Purpose: `heddle dump --what passes` and HEDDLE_DEBUG=3. The planner's rules work in one walk and feed each other;
// here the passes that are on are switched on one after the other, and each is shown by what it adds to those before
// it. The last line is the plan as it is run. Invariants: changes nothing. Plans once per pass, so it is for printing
// only. Thread safety: pure functions.
#pragma once

#include <string>

#include "heddle/core/contract/device.h"
#include "heddle/core/ir/ir.h"
#include "heddle/core/simplify/passes.h"

namespace heddle {

// Only passes that change something: vertices (or kernels) before and after, then lines that went ("-") and came ("+").
std::string describe_passes(const Graph& imported, const Caps& caps, PassSet passes = active_passes());

// Lines of `after` that are not in `before` and the other way round, in order; lines are compared by their text after
// the first " = ".
std::string diff_lines(const std::string& before, const std::string& after);

}  // namespace heddle
