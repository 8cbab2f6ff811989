#include "heddle/autograd/loop_iteration.h"

#include "heddle/core/op/primitives.h"

namespace heddle::autograd {

void LoopIteration::call_forward() {
  const bool before = grad_mode();
  set_grad_mode(true);
  std::vector<NodePtr> args;
  for (const NodePtr& arg : body_.args) {
    args.push_back(make_node_on(device_, ops::loop_arg_op, {}, arg->shape, arg->dtype));
    args.back()->tracks = is_float(arg->dtype);
  }
  forward_ = call_body(body_, args);
  set_grad_mode(before);
  for (size_t i = 0; i < forward_.size(); ++i) index_.emplace(forward_[i].get(), i);
}

// Others are computed again from those that are.
bool LoopIteration::is_kept(const Node& node) const {
  const auto at = index_.find(&node);
  if (at == index_.end()) return false;
  if (at->second < body_.args.size()) return true;
  if (shape_.checkpoint || node.keep == Keep::inside || node.op == &ops::loop_op) return false;
  return node.op->kind != OpKind::constant && !is_view_op(*node.op) && node.op != &ops::cast_op;
}

bool LoopIteration::is_from_outside(const Node& node) const {
  const auto at = index_.find(&node);
  return at != index_.end() && at->second >= outer() && at->second < body_.args.size();
}

std::vector<NodePtr> LoopIteration::kept_below(const std::vector<NodePtr>& results) const {
  std::vector<NodePtr> kept;
  for (const NodePtr& node : nodes_below(results, [&](const Node& n) { return is_kept(n) || n.has_value(); })) {
    if (is_kept(*node)) kept.push_back(node);
  }
  return kept;
}

void LoopIteration::find_replacements(const std::vector<NodePtr>& results, BodyTrace& trace) {
  for (const NodePtr& node : kept_below(results)) {
    const size_t index = index_.at(node.get());
    if (is_from_outside(*node)) {
      replaced_.emplace(node.get(), loop_.inputs[index]);
      continue;
    }
    replaced_.emplace(node.get(), trace.argument(node->shape, node->dtype).node());
    residuals_.push_back(static_cast<int>(index));
  }
}

std::vector<NodePtr> LoopIteration::residual_stacks() const {
  std::vector<NodePtr> stacks;
  for (int index : residuals_) stacks.push_back(loop_stack(self_, index).node());
  return stacks;
}

}  // namespace heddle::autograd
