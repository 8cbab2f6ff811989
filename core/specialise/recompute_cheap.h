// Cheap values that several kernels read are computed in each of them instead of stored, where that moves fewer bytes.
//
// Purpose: a value that is one cheap operation away from a tensor of its size (or smaller) which lies in memory anyway
// costs its readers the same reads, and nobody a write; where it was all of a kernel, the kernel is saved too.
// Invariants: only readers that are generated code take part; what is overwritten in place during the graph is not read
// in another's place; bindings stay within the limit. Thread safety: pure function.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <vector>

#include "heddle/core/ir/groups.h"

namespace heddle {

// The scheduler's state after grouping, which this changes.
struct Grouping {
  const Graph& graph;
  const std::vector<bool>& free_nodes;
  const std::set<int>& outputs;                   // vertices whose storage outlives the graph
  const std::map<int, int>& writers;              // by input slot: the vertex written there in place
  const std::function<bool(const Group&)>& fits;  // within the limits of a kernel
  std::vector<Group>& groups;
  std::vector<int>& group_of;            // by vertex; -1: none
  std::vector<std::vector<int>>& users;  // by vertex: kernels' vertices that read it, ascending
};
void recompute_cheap_values(const Grouping& g);

}  // namespace heddle
