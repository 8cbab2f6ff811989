// Hazards: a kernel that overwrites a storage while it still reads other elements of the old value.
//
// Invariants: answers follow from the graph and the group alone. Thread safety: pure functions.
#pragma once

#include <map>
#include <vector>

#include "heddle/core/ir/groups.h"

namespace heddle {

// Does the group, whose member `writer` overwrites the storage of `slot`, read that storage at other elements or times?
bool reads_elsewhere(const Graph& graph, const std::vector<bool>& free_nodes, const Group& group, const Member& writer,
                     int slot);
// The same of any of `writers`, by slot, that is a member.
bool has_hazard(const Graph& graph, const std::vector<bool>& free_nodes, const Group& group,
                const std::map<int, int>& writers);

}  // namespace heddle
