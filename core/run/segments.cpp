#include "heddle/core/run/segments.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "heddle/core/base/error.h"
#include "heddle/core/graph/evaluate.h"
#include "heddle/core/graph/mesh_scope.h"
#include "heddle/core/graph/post_order.h"
#include "heddle/core/graph/read_value.h"
#include "heddle/core/op/primitives.h"
#include "heddle/core/run/evaluation.h"

namespace heddle {
namespace {

void call(AxisLinks& links, Node& collective) {
  const CallerScope scope(collective.where.caller);
  const std::vector<uint8_t> result = links.call(collective, read_bytes(*collective.inputs[0]));
  const size_t bytes = static_cast<size_t>(collective.shape.numel()) * size_of(collective.dtype);
  if (result.size() != bytes)
    throw Error(fmt::format("[{}] the ranks gave {} bytes for {}", collective.op->name, result.size(), bytes));
  StoragePtr storage = collective.device->allocate(bytes);
  if (bytes > 0) collective.device->write(*storage, 0, result.data(), bytes);
  give_value(collective, std::move(storage), View::dense(collective.shape));
}

}  // namespace

bool is_repeated(const Node& node) {
  return node.op->kind == OpKind::constant || node.op->kind == OpKind::movement || node.op == &ops::pvary_op ||
         node.op == &ops::loop_op || node.keep == Keep::inside;
}

void evaluate_now(std::span<const NodePtr> roots) {
  std::vector<NodePtr> rest(roots.begin(), roots.end());
  while (!rest.empty()) {
    DeviceContext& device = *rest.front()->device;
    const auto others =
        std::stable_partition(rest.begin(), rest.end(), [&](const NodePtr& node) { return node->device == &device; });
    Evaluation evaluation = prepare_evaluation(device, {rest.begin(), others});
    run_evaluation(evaluation);
    rest.erase(rest.begin(), others);
  }
}

Segments::Segments(std::vector<NodePtr> ends, std::span<const NodePtr> roots) : ends_(std::move(ends)) {
  for (size_t i = 0; i < ends_.size(); ++i) add(ends_[i], i);
  for (const NodePtr& root : roots) add(root, ends_.size());
  last_reads_.note(order_, segment_, is_repeated);
  guards_ = values_read(order_);
}

// Numbers what a segment has to compute: what no segment before it did.
void Segments::add(const NodePtr& root, size_t segment) {
  if (root->has_value() || !segment_.try_emplace(root.get(), segment).second) return;
  post_order(
      root,
      [&](const NodePtr& input) { return !input->has_value() && segment_.try_emplace(input.get(), segment).second; },
      [](const Node&) { return true; }, [&](const NodePtr& node) { order_.push_back(node); });
}

std::vector<NodePtr> Segments::roots_of(size_t segment) const {
  std::vector<NodePtr> roots;
  for (const NodePtr& node : order_) {
    if (segment_.at(node.get()) != segment || node->has_value() || communicates(*node->op)) continue;
    if (node == operand(segment) || (!is_repeated(*node) && last_reads_.of(*node, segment) > segment))
      roots.push_back(node);
  }
  const NodePtr& last = operand(segment);  // of an earlier segment, which had no reason to keep it
  if (!last->has_value() && std::find(roots.begin(), roots.end(), last) == roots.end()) roots.push_back(last);
  return roots;
}

const NodePtr& Segments::operand(size_t segment) const {
  const NodePtr& end = ends_[segment];
  return communicates(*end->op) ? end->inputs[0] : end;
}

void Segments::run(AxisLinks& links) {
  for (size_t i = 0; i < ends_.size(); ++i) {
    evaluate_now(roots_of(i));
    call(links, *ends_[i]);
    forget(i);
  }
}

void Segments::evaluate(size_t segment) {
  evaluate_now(roots_of(segment));
  forget(segment);
}

// Nodes that have values have let go of their inputs: what lives on is read by a later segment.
void Segments::forget(size_t segment) {
  ends_[segment].reset();
  std::erase_if(order_, [&](const NodePtr& node) { return segment_.at(node.get()) <= segment; });
}

void make_collectives(std::span<const NodePtr> roots) {
  MeshScope* scope = MeshScope::current();
  if (scope == nullptr) return;
  std::vector<NodePtr> recorded = scope->take_recorded();
  if (!recorded.empty()) Segments(std::move(recorded), roots).run(scope->links());
}

}  // namespace heddle
