// Siblings: updates over the same elements that read the same memory become one kernel, which reads it once.
//
// Invariants: only where all that is then stored outlives the graph: everything else would have to wait for the later
// of the two. Thread safety: none.
#pragma once

#include "heddle/core/schedule/group_set.h"

namespace heddle {

void merge_siblings(GroupSet& set);

}  // namespace heddle
