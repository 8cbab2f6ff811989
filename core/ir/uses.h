// Walking a group: what it reads, and at which index.
//
// Invariants: answers follow from the graph and the group alone, so they hold for every device. Thread safety: pure
// functions.
#pragma once

#include <string>
#include <vector>

#include "heddle/core/ir/access.h"
#include "heddle/core/ir/groups.h"

namespace heddle {

// What a group reads from memory or computes at another index, found by walking down from its members.
struct Use {
  int node = -1;  // leaf, or vertex of another group
  Path path;      // how the group's index space maps to it
  Level level = Level::element;
  bool operand = false;  // read by the matmul or body itself, not by generated code
};
std::vector<Use> external_uses(const Graph& graph, const Group& group, const std::vector<bool>& free_nodes);
// The index space at which a member's inputs are read.
Path member_path(const Graph& graph, const Group& group, const Member& member, int input);
// Index of every dimension of the vertex at the end of `path`, op by op. Opaque parts print through `print` and
// `constant`.
struct IndexPrinter {
  virtual ~IndexPrinter() = default;
  virtual std::string print(const Index& index) = 0;             // an expression
  virtual std::string constant(int64_t value) = 0;               // a name or literal
  virtual std::string local(const std::string& expression) = 0;  // stores it in a variable, gives its name
  // How many values a variable takes, from 0 on; 0: not known.
  virtual int64_t extent(int /*variable*/) const { return 0; }
  // An index could be taken apart without a division if the variable ran in steps of that many.
  virtual void wants_steps(int /*variable*/, int64_t /*step*/) {}
};
std::vector<Index> resolve(const Graph& graph, const Path& path, IndexPrinter& printer);

}  // namespace heddle
