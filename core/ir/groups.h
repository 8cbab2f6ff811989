// Groups: which vertices a kernel computes, and a graph that is divided into them.
//
// Purpose: what the scheduler decides and lowering, the memory planner and inspection read. How it decides:
// core/schedule/schedule.h. Invariants: those of schedule(). Thread safety: plain values.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "heddle/core/ir/ir.h"

namespace heddle {

// join: no kernel; a vertex whose parts are written by the kernels of other groups. loop: a loop and its results.
enum class GroupKind : uint8_t { elementwise, reduce, matmul, body, join, loop };

// Where in a group's kernel a value is computed. element: once per element of `domain` (elementwise groups, and after a
// matmul); row: once per element of `domain` of a reduce group; full: once per element of domain x inner of a reduce
// group.
enum class Level : uint8_t { element, row, full };

struct Member {
  int node = -1;
  Level level = Level::element;
  bool stored = false;
};

struct Group {
  GroupKind kind = GroupKind::elementwise;
  Shape domain;  // output shape; for reduce the kept dimensions. Without dimensions of size 1, but for matmul and body
  Shape inner;   // reduce: the reduced dimensions, without those of size 1
  std::vector<Member> members;  // ascending by node; what is computed here at the group's own index
  std::vector<int> inlined;     // computed here at other indices, for one consumer; ascending
  int anchor = -1;              // the matmul, the body's vertex, the loop, or one of the reductions
  const Member* find(int node) const;
  // Each in its place.
  void add(int id, Level level, bool stored);
  void add_inlined(int id);
};

// How an output of the graph is given its value.
struct OutputPlan {
  int base = -1;         // vertex whose storage holds it (a stored member or a leaf)
  View view;             // of the output over that storage
  int assign_slot = -1;  // the input storage that it overwrites, or -1
  // An assign that cannot be written straight: computed apart, then copied into assign_slot at the end.
  bool copy_back = false;

  // base's kernel writes into the input storage itself.
  bool in_place() const { return assign_slot >= 0 && !copy_back; }
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
  std::vector<int> early;           // outputs that are wanted first, in that order

  // The input slot whose storage the vertex is written into; -1: it has memory of its own. At most one: materialize()
  // copies what is assigned a second time.
  int assigned_slot(int vertex) const;
  std::string str() const;
};

// The internal row `copy`: an elementwise identity that forces its input into memory.
extern const OpDef copy_op;
// The internal row `join`: a concat along the outermost dimension whose parts, all copies, are written where they
// belong.
extern const OpDef join_op;

}  // namespace heddle
