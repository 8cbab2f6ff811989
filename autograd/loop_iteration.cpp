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

// Values of the forward iteration that are read from a stack; others are computed again from those.
bool LoopIteration::is_kept(const Node& node, size_t index) const {
  if (index < body_.args.size()) return true;
  if (shape_.checkpoint || node.keep == Keep::inside || node.op == &ops::loop_op) return false;
  return node.op->kind != OpKind::constant && !is_view_op(*node.op) && node.op != &ops::cast_op;
}

void LoopIteration::find_replacements(const std::vector<NodePtr>& results, BodyTrace& trace) {
  const auto kept = [&](const Node& node) {
    const auto at = index_.find(&node);
    return at != index_.end() && is_kept(node, at->second);
  };
  for (const NodePtr& node : nodes_below(results, [&](const Node& n) { return kept(n) || n.has_value(); })) {
    if (!kept(*node)) continue;
    const size_t index = index_.at(node.get());
    if (index >= outer() && index < body_.args.size()) {
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
