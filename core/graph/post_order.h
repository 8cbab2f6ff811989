// The walk under every transform and evaluation: the nodes below another, inputs before users.
//
// Purpose: one depth-first post-order without recursion, since chains are tens of thousands of nodes long. Invariants: `leave` is called for a node
// after it was called for the inputs that were entered from it. Nothing in the graph may change before the walk ends. Thread safety: pure.
#pragma once

#include <vector>

#include "core/graph/node.h"

namespace heddle {

// enter(const NodePtr&): is this input, met from one of its users, to be visited? Keeps account of what was. The root is not asked for.
// opens(const Node&): are the node's inputs to be met? Asked once, when the node is entered.
// leave(const NodePtr&): all below was left.
template <class Enter, class Opens, class Leave>
void post_order(const NodePtr& root, const Enter& enter, const Opens& opens, const Leave& leave) {
  struct Frame {
    const NodePtr* node;
    size_t next, inputs;
  };
  const auto frame = [&](const NodePtr& node) { return Frame{&node, 0, opens(*node) ? node->inputs.size() : 0}; };
  std::vector<Frame> stack{frame(root)};
  while (!stack.empty()) {
    Frame& top = stack.back();
    if (top.next < top.inputs) {
      const NodePtr& input = (*top.node)->inputs[top.next++];
      if (enter(input)) stack.push_back(frame(input));
      continue;
    }
    const NodePtr& node = *top.node;
    stack.pop_back();
    leave(node);
  }
}

}  // namespace heddle
