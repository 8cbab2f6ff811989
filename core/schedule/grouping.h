// Grouping: which vertices one kernel computes, decided from users to producers.
//
// Purpose: each vertex joins the group of its users where shapes and accesses (Joining) and the limits (group_set.h)
// allow; otherwise it opens a group of its own. Invariants: every kernel's vertex has a group afterwards. Thread
// safety: none.
#pragma once

#include "heddle/core/schedule/group_set.h"

namespace heddle {

// `set` has no groups yet.
void group_vertices(GroupSet& set);

}  // namespace heddle
