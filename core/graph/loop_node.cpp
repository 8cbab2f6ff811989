#include "heddle/core/graph/loop_node.h"

namespace heddle {

// From the users to their inputs, so that no chain of destructors is long.
LoopBody::~LoopBody() {
  results.clear();
  while (!order.empty()) order.pop_back();
}

const LoopNode& as_loop(const Node& node) { return static_cast<const LoopNode&>(node); }

LoopShape LoopShape::of(const Node& loop) {
  const std::vector<int64_t>& ints = loop.attrs.ints;
  return {ints[0], static_cast<int>(ints[1]), static_cast<int>(ints[2]), ints[3] != 0, ints[4] != 0};
}

}  // namespace heddle
