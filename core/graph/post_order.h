// The walks under every transform and evaluation: over the nodes below another.
//
// Purpose: without recursion, since chains are tens of thousands of nodes long; in post-order, inputs before users, or
// in search of one. Invariants: `leave` is called for a node after it was called for the inputs that were entered from
// it. Nothing in the graph may change before the walk ends. Thread safety: pure.
#pragma once

#include <span>
#include <unordered_set>
#include <vector>

#include "heddle/core/graph/node.h"

namespace heddle {

// enter(const NodePtr&): is this input, met from one of its users, to be visited? Keeps account of what was. The root
// is not asked for. opens(const Node&): are the node's inputs to be met? Asked once, when the node is entered.
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

// Is there a node without a value that `is` it, among these and those below?
template <class Predicate>
bool any_without_value(std::span<const NodePtr> nodes, const Predicate& is) {
  std::unordered_set<const Node*> seen;
  std::vector<const Node*> stack;
  for (const NodePtr& node : nodes) stack.push_back(node.get());
  while (!stack.empty()) {
    const Node* at = stack.back();
    stack.pop_back();
    if (at->has_value() || !seen.insert(at).second) continue;
    if (is(*at)) return true;
    for (const NodePtr& input : at->inputs) stack.push_back(input.get());
  }
  return false;
}

template <class Predicate>
bool any_without_value(const NodePtr& node, const Predicate& is) {
  return any_without_value(std::span(&node, 1), is);
}

}  // namespace heddle
