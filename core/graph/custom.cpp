#include "heddle/core/graph/custom.h"

#include <mutex>
#include <unordered_map>

#include "heddle/core/graph/evaluate.h"
#include "heddle/core/graph/recompute_scope.h"
#include "heddle/core/op/decompose.h"

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

// Not yet pending.
NodePtr new_custom(const Tensor& value, std::span<const Tensor> others, std::shared_ptr<const CustomRule> rule) {
  auto node = std::make_shared<CustomNode>();
  node->op = &ops::custom_op;
  node->inputs.push_back(value.node());
  for (const Tensor& other : others) node->inputs.push_back(other.node());
  node->varying = unify_inputs(ops::custom_op, {}, node->inputs);
  node->shape = value.shape();
  node->dtype = value.dtype();
  node->device = &value.device();
  node->where = current_line();
  node->keep = RecomputeScope::active() ? Keep::inside : Keep::plain;
  for (size_t i = 1; i <= rule->arguments && grad_mode(); ++i) node->tracks = node->tracks || node->inputs[i]->tracks;
  Rules& all = rules();
  const std::lock_guard guard(all.mutex);
  all.by_node.emplace(node.get(), std::move(rule));
  return node;
}

// `value`, a leaf on another device, as what `from` is there: cotangents and tangents move between the two devices. It
// has its value from the first, so that no capture reaches back to the other device.
Tensor make_moved(const Tensor& value, const Tensor& from) {
  auto rule = std::make_shared<CustomRule>();
  rule->name = "to";
  rule->arguments = 1;
  rule->vjp = [source = &from.device()](std::span<const Tensor>, const Tensor& cotangent) {
    return std::vector<Tensor>{cotangent.to(*source)};
  };
  rule->jvp = [target = &value.device()](std::span<const Tensor>, std::span<const Tensor> tangents) {
    return tangents[0].to(*target);
  };
  const NodePtr node = new_custom(value, {&from, 1}, std::move(rule));
  node->storage = value.node()->storage;
  node->view = value.node()->view;
  return Tensor(node);
}

}  // namespace

Tensor make_custom(const Tensor& value, std::span<const Tensor> others, std::shared_ptr<const CustomRule> rule) {
  const NodePtr node = new_custom(value, others, std::move(rule));
  note_pending(node);
  return Tensor(node);
}

std::shared_ptr<const CustomRule> find_custom_rule(const Node& node) {
  Rules& all = rules();
  const std::lock_guard guard(all.mutex);
  const auto found = all.by_node.find(&node);
  return found == all.by_node.end() ? nullptr : found->second;
}

Tensor Tensor::to(DeviceContext& target, Caller caller) const {
  const CallerScope scope(caller);
  if (&target == &device()) return *this;
  const std::vector<uint8_t> bytes = to_bytes(caller);
  const Tensor moved = from_bytes(bytes.data(), static_cast<size_t>(numel()), dtype(), shape(), &target);
  return node()->tracks && grad_mode() ? make_moved(moved, *this) : moved;
}

Tensor Tensor::to(std::string_view device_id, Caller caller) const { return to(heddle::device(device_id), caller); }

Tensor decompose_custom(const Node& node) { return Tensor(node.inputs[0]); }

}  // namespace heddle
