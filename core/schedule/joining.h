// Joining: what a group becomes when it computes one more vertex, as shapes and accesses allow.
//
// Purpose: the rules of which kernel can compute what. Elementwise work joins where it is read at the group's own
// index, or is cheap to repeat; a reduction takes the elementwise work over its rows before and after it; a matmul or
// body takes what follows it as its epilogue. Invariants: answers follow from the graph and the group alone; limits,
// cycles and hazards are checked by GroupSet. Thread safety: pure functions.
#pragma once

#include <optional>
#include <vector>

#include "heddle/core/ir/groups.h"

namespace heddle {

// Members and inlined vertices stay ascending.
void add_member(Group& group, int id, Level level, bool stored);
void add_inlined(Group& group, int id);

// The group with `id`, whose users are all there already, in it; nothing when their kinds or shapes do not fit. `only`:
// nobody else needs the value, so it is not stored.
std::optional<Group> with_vertex(const Graph& graph, const std::vector<bool>& free_nodes, const Group& group, int id,
                                 bool only);
// Whether `id` is one value per row of an elementwise group's domain and comes from a reduction over the rest of that
// domain.
bool splits_rows(const Graph& graph, const Group& group, int id);
// Loops of a user's text run once for an element: inside a loop over elements their iterations multiply.
bool may_loop_together(const Graph& graph, const Group& group, int id);

}  // namespace heddle
