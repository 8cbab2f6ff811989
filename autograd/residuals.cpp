#include "heddle/autograd/residuals.h"

#include <algorithm>
#include <unordered_set>

#include "heddle/core/graph/node.h"
#include "heddle/core/graph/post_order.h"
#include "heddle/core/op/primitives.h"

namespace heddle {
namespace {

// Made again from its inputs at the cost of reading them, or less.
bool is_cheap(const Node& node) {
  if (node.op->kind == OpKind::constant) return true;
  if (node.op->kind == OpKind::movement) return node.op != &ops::concat_op && node.op != &ops::pad_op;
  const auto is_there = [](const NodePtr& input) { return input->has_value(); };
  return node.op->kind == OpKind::elementwise && std::ranges::all_of(node.inputs, is_there);
}

// Calls leave(node) for nodes without a value below these, each once; what is below those that `ends` is not met.
template <class Ends, class Leave>
void walk(std::span<const NodePtr> roots, const Ends& ends, const Leave& leave) {
  std::unordered_set<const Node*> seen;
  const auto enter = [&](const NodePtr& node) { return !node->has_value() && seen.insert(node.get()).second; };
  for (const NodePtr& root : roots) {
    if (root != nullptr && enter(root))
      post_order(
          root, enter, [&](const Node& node) { return !ends(node); }, leave);
  }
}

}  // namespace

std::vector<NodePtr> nodes_of(std::span<const Tensor> tensors) {
  std::vector<NodePtr> nodes;
  for (const Tensor& tensor : tensors) nodes.push_back(tensor.defined() ? tensor.node() : NodePtr());
  return nodes;
}

std::vector<Tensor> tensors_of(std::span<const NodePtr> nodes) {
  std::vector<Tensor> tensors;
  for (const NodePtr& node : nodes) tensors.push_back(node != nullptr ? Tensor(node) : Tensor());
  return tensors;
}

std::vector<NodePtr> pending_below(std::span<const NodePtr> roots) {
  std::vector<NodePtr> found;
  walk(
      roots, [](const Node&) { return false; }, [&](const NodePtr& node) { found.push_back(node); });
  return found;
}

std::vector<NodePtr> residuals(std::span<const NodePtr> later, std::span<const NodePtr> earlier) {
  std::unordered_set<const Node*> before;
  for (const NodePtr& node : earlier) before.insert(node.get());
  const auto ends = [&](const Node& node) { return before.contains(&node) && !is_cheap(node); };
  std::vector<NodePtr> found;
  walk(later, ends, [&](const NodePtr& node) {
    if (ends(*node)) found.push_back(node);
  });
  return found;
}

}  // namespace heddle
