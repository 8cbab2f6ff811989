// The planner's own graph: what is pending, as a flat list of vertices in topological order.
//
// Purpose: passes rewrite this, never the user's nodes. Invariants: inputs come before their users; ids index
// Graph::nodes; fused rows are gone (replaced by their decomposition at import). Thread safety: plain values.
#pragma once

#include <string>
#include <vector>

#include "heddle/core/graph/key_writer.h"
#include "heddle/core/graph/loop.h"
#include "heddle/core/graph/node.h"

namespace heddle {

// Where a value lies when a kernel starts.
struct LeafInfo {
  int slot = -1;       // storage of the graph's inputs; leaves over the same storage share it. -1: host value
  int host_slot = -1;  // index among the graph's host values
  View view;           // in elements of the node's dtype
};

struct IrLoop;
struct PlannedLoop;

struct IrNode {
  const OpDef* op = nullptr;
  Attrs attrs;
  std::vector<int> inputs;
  Shape shape;
  DType dtype = DType::f32;
  int leaf = -1;             // index into Graph::leaves
  Keep keep = Keep::plain;   // core/specialise/recompute.h
  bool once = false;         // may be computed by the first run and kept: core/simplify/precomputed.h
  uint16_t varies = 0x8000;  // which sizes of it vary: core/ir/dynamic_sizes.h
  int origin =
      -1;  // index into Capture::order of the recorded node that this came from; -1: a pass made it for its own purpose
  std::shared_ptr<const IrLoop> loop;          // a loop as it was recorded
  std::shared_ptr<const PlannedLoop> planned;  // a loop whose body has its plan (core/memory/planned_loop.h)
};

// A value somebody asked for.
struct IrOutput {
  int node = -1;
  int assign_slot = -1;  // input storage to overwrite, or -1 for new storage
};

struct Graph {
  std::vector<IrNode> nodes;
  std::vector<LeafInfo> leaves;
  std::vector<IrOutput> outputs;
  int storage_slots = 0;
  int host_slots = 0;

  int add(IrNode node) {
    nodes.push_back(std::move(node));
    return static_cast<int>(nodes.size()) - 1;
  }
  // Without vertices yet: what a pass fills.
  Graph over_same_leaves() const {
    Graph other;
    other.leaves = leaves;
    other.storage_slots = storage_slots;
    other.host_slots = host_slots;
    return other;
  }
  // One line a vertex: "%12 = add (32, 128) f32 %3 %11".
  std::string str() const;
};

// What a loop repeats, imported: argument i of the body is the leaf of slot i. Which values it has to store is not said
// (no outputs): the vertices that ask the loop for results do, as long as passes may still drop or copy them.
struct IrLoop {
  Graph body;
  std::vector<int> of_order;  // LoopBody::order -> vertex; arguments first
  std::vector<int> next;      // the next carries
  LoopShape shape;
};

// Captured pending work on one device: the nodes to compute, and what identifies its structure.
struct Capture {
  std::vector<NodePtr> order;        // topological, leaves included
  std::vector<NodePtr> outputs;      // nodes to give a value
  std::vector<StoragePtr> storages;  // by slot
  std::vector<uint64_t>
      bases;  // by slot: the first byte that is bound; leaves' offsets in `key` and in the plan count from it
  std::vector<HostValue> host_values;  // by host slot
  std::vector<int> assign_slots;       // per output: slot written in place, or -1
  std::vector<Node*> overwritten;      // leaves whose memory the outputs overwrite
  std::vector<int> early;              // outputs that are wanted first, in that order
  std::vector<uint64_t> key;
  std::vector<KeySize> sizes;  // the words of `key` that are sizes; KeySize::node is a position in `order`

  // A leaf's view, counted from what is bound of its slot's storage.
  View view(const Node& leaf, size_t slot) const {
    View view = leaf.view;
    view.offset -= static_cast<int64_t>(bases[slot] / size_of(leaf.dtype));
    return view;
  }
};

}  // namespace heddle
