#include "heddle/core/record/import_graph.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "heddle/core/functions/derived_scope.h"
#include "heddle/core/graph/pending.h"
#include "heddle/core/graph/tensor.h"
#include "heddle/core/ir/bodies.h"
#include "heddle/core/ir/dynamic_sizes.h"
#include "heddle/core/op/primitives.h"
#include "heddle/core/op/user_row.h"
#include "heddle/core/record/capture.h"

namespace heddle {
namespace {

// What assigns write over the memory of its own first operand.
std::unordered_set<const Node*> find_updates(const Capture& captured) {
  std::unordered_set<const Node*> updates;
  auto target = captured.overwritten.begin();
  for (size_t i = 0; i < captured.outputs.size(); ++i) {
    if (captured.assign_slots[i] < 0) continue;
    const Node* value = captured.outputs[i]->inputs.back().get();
    if (!value->inputs.empty() && value->inputs[0].get() == *target) updates.insert(value);
    ++target;
  }
  return updates;
}

class Importer {
 public:
  // The graph of a step.
  Importer(const Capture& captured, const std::vector<uint16_t>& varying)
      : captured_(&captured), varies_(varying), updates_(find_updates(captured)) {
    graph_.storage_slots = static_cast<int>(captured.storages.size());
    graph_.host_slots = static_cast<int>(captured.host_values.size());
    for (const NodePtr& node : captured.order) {
      import(node);
      ++origin_;
    }
    settle_sizes(graph_, !varies_.empty());
    for (size_t i = 0; i < captured.outputs.size(); ++i)
      graph_.outputs.push_back({id_of(captured.outputs[i]), captured.assign_slots[i]});
  }

  // A loop's body.
  explicit Importer(const LoopBody& body) : origin_(-1) {
    graph_.storage_slots = static_cast<int>(body.args.size());
    for (const NodePtr& node : body.order) import(node);
  }

  int id_of(const NodePtr& node) const { return ids_.at(node.get()); }
  Graph take() { return std::move(graph_); }

 private:
  // Rows of kind body may decline single nodes: those are decomposed, as fused rows are.
  bool has_kernel(const Node& node) const {
    if (node.op->kind != OpKind::body) return false;
    const BodyRow& row = body_row(*node.op);
    return (row.takes == nullptr || row.takes(node)) && (!row.updates || updates_.contains(&node));
  }

  void import(const NodePtr& node) {
    if (ids_.contains(node.get())) return;
    if (node->has_value()) {
      ids_[node.get()] = import_leaf(*node);
      graph_.nodes.back().varies = known_to_vary();
    } else if (node->op == &ops::loop_arg_op) {
      ids_[node.get()] = add_leaf(*node, {next_argument_++, -1, View::dense(node->shape)});
    } else if (node->op->decompose && !has_kernel(*node)) {
      ids_[node.get()] = import_fused(node);
    } else if (node->op == &ops::assign_op || node->op == &ops::while_result_op || node->op == &ops::pvary_op) {
      ids_[node.get()] = ids_.at(node->inputs.back().get());
    } else {
      IrNode ir{planned_row(node->op), node->attrs, {}, node->shape, node->dtype};
      // The number in its dtype is what the value is: 300 in u8 is 44, also where it never lies in memory.
      // A number beside f16 or bf16 keeps f32's digits (build::number_like).
      if (node->op == &ops::full_op)
        ir.attrs.real = rounded(node->attrs.real, is_half(node->dtype) ? DType::f32 : node->dtype);
      if (node->op == &ops::pad_op) ir.attrs.real = rounded(node->attrs.real, node->dtype);
      if (node->op == &ops::loop_op) ir.loop = import_loop(as_loop(*node));
      ir.origin = origin_;
      ir.varies = known_to_vary();
      if (ir.varies == varies::unknown && ir.op->kind == OpKind::constant)
        ir.varies |= varies::numbers;  // a mean's 1 / n, perhaps
      if (captured_)
        ir.keep = node->keep == Keep::plain ? keep_ : node->keep;  // a body is kept or computed again as a whole
      for (const NodePtr& input : node->inputs) ir.inputs.push_back(ids_.at(input.get()));
      ids_[node.get()] = graph_.add(std::move(ir));
    }
  }

  // Of what is imported now. A decomposition's vertices are not in the key: theirs follow from their inputs, but for
  // numbers.
  uint16_t known_to_vary() const {
    const uint16_t recorded = varies_.empty() ? uint16_t{0} : varies_[static_cast<size_t>(origin_)];
    if (!decomposing_) return recorded;
    return varies_.empty() ? uint16_t{0} : varies::unknown;
  }

  static std::shared_ptr<const IrLoop> import_loop(const LoopNode& node) {
    Importer inner(*node.body);
    auto loop = std::make_shared<IrLoop>();
    loop->shape = LoopShape::of(node);
    for (const NodePtr& value : node.body->order) loop->of_order.push_back(inner.id_of(value));
    for (int c = 0; c < loop->shape.carries; ++c)
      loop->next.push_back(inner.id_of(node.body->results[static_cast<size_t>(c)]));
    loop->body = inner.take();
    return loop;
  }

  int add_leaf(const Node& node, const LeafInfo& leaf) {
    graph_.leaves.push_back(leaf);
    return graph_.add({&ops::leaf_op, {}, {}, node.shape, node.dtype, static_cast<int>(graph_.leaves.size()) - 1});
  }

  int import_leaf(const Node& node) {
    if (node.host) return add_leaf(node, {-1, next_host_++, View::dense(node.shape)});
    const auto at = std::find(captured_->storages.begin(), captured_->storages.end(), node.storage);
    const int slot = static_cast<int>(at - captured_->storages.begin());
    return add_leaf(node, {slot, -1, captured_->view(node, static_cast<size_t>(slot))});
  }

  int import_fused(const NodePtr& node) {
    const PendingPause pause;  // the decomposition's nodes belong to nobody
    const DerivedScope derived;
    const Tensor value = node->op->decompose(*node);
    Numbering seen;
    std::vector<NodePtr> order;
    for (const auto& [known, id] : ids_) seen.add(*known, id);
    append_topological(value.node(), seen, order);
    const Keep before = std::exchange(keep_, node->keep == Keep::plain ? keep_ : node->keep);
    const bool nested = std::exchange(decomposing_, true);
    for (const NodePtr& inner : order) import(inner);
    decomposing_ = nested;
    keep_ = before;
    kept_.push_back(value);  // addresses in ids_ stay valid
    return ids_.at(value.node().get());
  }

  const Capture* captured_ = nullptr;  // of a step
  const std::vector<uint16_t> varies_;
  const std::unordered_set<const Node*> updates_;
  bool decomposing_ = false;
  Graph graph_;
  std::unordered_map<Node*, int> ids_;
  std::vector<Tensor> kept_;
  int next_host_ = 0, next_argument_ = 0;
  int origin_ = 0;           // the recorded node that is imported now; of a body none
  Keep keep_ = Keep::plain;  // of the node whose decomposition is imported
};

}  // namespace

Graph import_graph(const Capture& captured, const std::vector<uint16_t>& varies) {
  return Importer(captured, varies).take();
}

}  // namespace heddle
