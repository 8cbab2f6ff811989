// Capture: from pending nodes to what they compute and the key under which its plan is found again.
//
// Invariants: equal keys mean equal plans. Thread safety: the nodes without a value belong to the calling thread.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "heddle/core/graph/node.h"
#include "heddle/core/ir/ir.h"

namespace heddle {

// Collects everything `roots` need. Nodes held by a Tensor become outputs.
Capture capture(std::span<const NodePtr> roots);

// Positions of nodes in an order, inputs before users. Finished values may be read by other threads meanwhile, so
// theirs stand in a table; nodes without a value carry their number, and a newer Numbering takes it away from an older
// one.
class Numbering {
 public:
  Numbering();
  bool contains(const Node& node) const {
    return node.capture_epoch == epoch_ || (node.has_value() && finished_.contains(&node));
  }
  int at(const Node& node) const { return node.capture_epoch == epoch_ ? node.capture_number : finished_.at(&node); }
  // False when it has a number already.
  bool add(Node& node, int number);

 private:
  uint64_t epoch_;
  std::unordered_map<const Node*, int> finished_;
};

// What `root` needs and is not numbered yet, at the end of `order`; nodes already numbered stay where they are.
void append_topological(const NodePtr& root, Numbering& number, std::vector<NodePtr>& order);

}  // namespace heddle
