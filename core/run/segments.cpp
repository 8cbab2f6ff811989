#include "heddle/core/run/segments.h"

#include <algorithm>
#include <optional>
#include <unordered_map>

#include "heddle/core/device/adopted.h"
#include "heddle/core/graph/evaluate.h"
#include "heddle/core/graph/mesh_scope.h"
#include "heddle/core/graph/post_order.h"
#include "heddle/core/graph/read_value.h"
#include "heddle/core/op/primitives.h"
#include "heddle/core/run/evaluation.h"

namespace heddle {
namespace {

// Fewer bytes are copied in the time in which a device says where they lie.
constexpr size_t least_shared_bytes = size_t{64} << 10;

size_t bytes_of(const Node& node) { return static_cast<size_t>(node.shape.numel()) * size_of(node.dtype); }

// A value of many bytes that lies dense at an address of the host, which is there for as long as the node has it.
std::optional<std::span<const uint8_t>> lying_bytes(const Node& node) {
  View dense = View::dense(node.shape);
  dense.offset = node.view.offset;
  if (!node.storage || node.view != dense || bytes_of(node) < least_shared_bytes) return std::nullopt;
  const auto* const first = static_cast<const uint8_t*>(host_address(*node.storage));
  if (first == nullptr) return std::nullopt;
  return std::span(first + static_cast<size_t>(dense.offset) * size_of(node.dtype), bytes_of(node));
}

void call_from(AxisLinks& links, Node& collective, std::span<const uint8_t> operand) {
  const size_t bytes = bytes_of(collective);
  StoragePtr storage = collective.device->allocate(bytes);
  auto* const first = bytes < least_shared_bytes ? nullptr : static_cast<uint8_t*>(host_address(*storage));
  if (first != nullptr) {
    links.call(collective, operand, {first, bytes});
    note_host_write(*storage);
  } else {
    std::vector<uint8_t> result(bytes);
    links.call(collective, operand, result);
    if (bytes > 0) collective.device->write(*storage, 0, result.data(), bytes);
  }
  give_value(collective, std::move(storage), View::dense(collective.shape));
}

// Where a device's memory is the host's, ranks exchange what lies there.
void call(AxisLinks& links, Node& collective) {
  const CallerScope scope(collective.where.caller);
  const Node& operand = *collective.inputs[0];
  const std::optional<std::span<const uint8_t>> lying = lying_bytes(operand);
  if (lying) return call_from(links, collective, *lying);
  const std::vector<uint8_t> copy = read_bytes(operand);
  call_from(links, collective, copy);
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
