#include "core/graph/custom.h"

#include <mutex>
#include <unordered_map>

#include "core/graph/checkpoint.h"
#include "core/graph/evaluate.h"
#include "core/op/decompose.h"

namespace heddle {
namespace {

// Rules by node. Leaked: nodes held by static objects are destroyed after any static table.
struct Rules {
  std::mutex mutex;
  std::unordered_map<const Node*, std::shared_ptr<const CustomRule>> by_node;
};
Rules& rules() {
  static Rules* const all = new Rules();
  return *all;
}

struct CustomNode final : Node {
  ~CustomNode() {
    std::shared_ptr<const CustomRule> rule;  // destroyed after the lock: it may own other custom nodes
    Rules& all = rules();
    const std::lock_guard guard(all.mutex);
    const auto found = all.by_node.find(this);
    if (found == all.by_node.end()) return;
    rule = std::move(found->second);
    all.by_node.erase(found);
  }
};

}  // namespace

Tensor make_custom(const Tensor& value, std::span<const Tensor> others, std::shared_ptr<const CustomRule> rule) {
  auto node = std::make_shared<CustomNode>();
  node->op = &ops::custom_op;
  node->inputs.push_back(value.node());
  for (const Tensor& other : others) node->inputs.push_back(other.node());
  node->shape = value.shape();
  node->dtype = value.dtype();
  node->device = &value.device();
  node->where = current_line();
  node->keep = RecomputeScope::active() ? Keep::inside : Keep::plain;
  for (size_t i = 1; i <= rule->arguments && grad_mode(); ++i) node->tracks = node->tracks || node->inputs[i]->tracks;
  {
    Rules& all = rules();
    const std::lock_guard guard(all.mutex);
    all.by_node.emplace(node.get(), std::move(rule));
  }
  note_pending(node);
  return Tensor(NodePtr(std::move(node)));
}

std::shared_ptr<const CustomRule> find_custom_rule(const Node& node) {
  Rules& all = rules();
  const std::lock_guard guard(all.mutex);
  const auto found = all.by_node.find(&node);
  return found == all.by_node.end() ? nullptr : found->second;
}

Tensor decompose_custom(const Node& node) { return Tensor(node.inputs[0]); }

}  // namespace heddle
