// The scheduler: which vertices become one kernel, and in which order kernels run.
//
// Purpose: groups elementwise chains, reductions with what comes before and after them over the same rows, and matmuls with their prologue
// and epilogue; everything else of a group is computed where it is needed and never stored.
// Invariants: every stored vertex belongs to exactly one group; groups are in an order in which every read has a writer and every in-place
// write comes after the last read of the old value; a group has one output domain, and at most one matmul or body.
// Thread safety: pure function of its input.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/exec/access.h"
#include "core/exec/ir.h"

namespace heddle {

// join: no kernel; a vertex whose parts are written by the kernels of other groups. loop: a loop and its results.
enum class GroupKind : uint8_t { elementwise, reduce, matmul, body, join, loop };

// Where in a group's kernel a value is computed. element: once per element of `domain` (elementwise groups, and after a matmul);
// row: once per element of `domain` of a reduce group; full: once per element of domain x inner of a reduce group.
enum class Level : uint8_t { element, row, full };

struct Member {
  int node = -1;
  Level level = Level::element;
  bool stored = false;
};

struct Group {
  GroupKind kind = GroupKind::elementwise;
  Shape domain;                 // output shape; for reduce the kept dimensions. Without dimensions of size 1, but for matmul and body
  Shape inner;                  // reduce: the reduced dimensions, without those of size 1
  std::vector<Member> members;  // ascending by node; what is computed here at the group's own index
  std::vector<int> inlined;     // computed here at other indices, for one consumer; ascending
  int anchor = -1;              // the matmul, the body's vertex, the loop, or one of the reductions
  const Member* find(int node) const;
};

// How an output of the graph is given its value.
struct OutputPlan {
  int base = -1;          // vertex whose storage holds it (a stored member or a leaf)
  View view;              // of the output over that storage
  int assign_slot = -1;   // base is written straight into this input storage
  bool copy_back = false; // assign that cannot be written straight: computed apart, then copied into assign_slot at the end
};

// Where a part of a join lies: in the join's memory, so many elements from its start.
struct Placed {
  int join = -1;
  int64_t offset = 0;
};

struct ScheduledGraph {
  Graph graph;                      // with explicit copies where a value must lie in memory
  std::map<int, Placed> placed;     // parts of joins
  std::vector<Group> groups;        // in execution order
  std::vector<OutputPlan> outputs;  // per graph.outputs
  std::vector<bool> free_nodes;     // computed by whoever needs them
  std::string str() const;
};

// The internal row `copy`: an elementwise identity that forces its input into memory.
extern const OpDef copy_op;
// The internal row `join`: a concat along the outermost dimension whose parts, all copies, are written where they belong.
extern const OpDef join_op;

struct ScheduleLimits {
  uint32_t max_bindings = 8;
  bool fuse = true;  // false: one kernel a vertex (eager mode and tests)
  bool siblings = true;  // updates that read the same memory are one kernel
  bool cheap = true;     // core/exec/recompute_cheap.h
  bool counted_loops = false;  // a driver ends long loops: loops of a user's text stay out of loops over rows and products
};

ScheduledGraph schedule(Graph graph, const ScheduleLimits& limits);

// What a group reads from memory or computes at another index, found by walking down from its members.
struct Use {
  int node = -1;   // leaf, or vertex of another group
  Path path;       // how the group's index space maps to it
  Level level = Level::element;
  bool operand = false;  // read by the matmul or body itself, not by generated code
};
std::vector<Use> external_uses(const Graph& graph, const Group& group, const std::vector<bool>& free_nodes);
// Vertices cheap enough to be computed wherever they are needed: scalar arithmetic on leaves.
std::vector<bool> find_free_nodes(const Graph& graph);
// The index space at which a member's inputs are read.
Path member_path(const Graph& graph, const Group& group, const Member& member, int input);
// Index of every dimension of the vertex at the end of `path`, op by op. Opaque parts print through `print` and `constant`.
struct IndexPrinter {
  virtual ~IndexPrinter() = default;
  virtual std::string print(const Index& index) = 0;                // an expression
  virtual std::string constant(int64_t value) = 0;                  // a name or literal
  virtual std::string local(const std::string& expression) = 0;     // stores it in a variable, gives its name
};
std::vector<Index> resolve(const Graph& graph, const Path& path, IndexPrinter& printer);

}  // namespace heddle
