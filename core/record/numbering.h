// Positions of nodes in an order, inputs before users.
//
// Invariants: nodes without a value belong to the calling thread and carry their number; finished values may be read by
// other threads meanwhile, so theirs stand in a table. A newer Numbering takes the nodes' numbers away from an older
// one. Thread safety: as said.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "heddle/core/graph/node.h"

namespace heddle {

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
