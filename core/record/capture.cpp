#include "core/record/capture.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "core/functions/derived_scope.h"
#include "core/graph/number_guard.h"
#include "core/graph/pending.h"
#include "core/graph/post_order.h"
#include "core/graph/tensor.h"
#include "core/graph/transform.h"
#include "core/ir/bodies.h"
#include "core/ir/dynamic_sizes.h"
#include "core/op/primitives.h"
#include "core/op/user_row.h"

namespace heddle {
namespace {

// Positions in Capture::order. Nodes without a value belong to this thread and carry their number; finished values may
// be read by other threads meanwhile, so theirs stand in a table.
class Numbering {
 public:
  Numbering() : epoch_(next_epoch()) {}
  bool contains(const Node& node) const {
    return node.capture_epoch == epoch_ || (node.has_value() && finished_.contains(&node));
  }
  int at(const Node& node) const { return node.capture_epoch == epoch_ ? node.capture_number : finished_.at(&node); }
  // False when it has a number already.
  bool add(Node& node, int number) {
    if (node.has_value()) return finished_.try_emplace(&node, number).second;
    if (node.capture_epoch == epoch_) return false;
    node.capture_epoch = epoch_;
    node.capture_number = number;
    return true;
  }

 private:
  static uint64_t next_epoch() {
    static std::atomic<uint64_t> last{0};
    return last.fetch_add(1, std::memory_order_relaxed) + 1;
  }

  uint64_t epoch_;
  std::unordered_map<const Node*, int> finished_;
};

// Nodes already numbered stay where they are.
void append_topological(const NodePtr& root, Numbering& number, std::vector<NodePtr>& order) {
  if (number.contains(*root)) return;
  post_order(
      root, [&](const NodePtr& input) { return !number.contains(*input); },
      [](const Node& node) { return !node.has_value(); },
      [&](const NodePtr& node) {
        if (number.add(*node, static_cast<int>(order.size()))) order.push_back(node);
      });
}

[[noreturn]] void throw_overwritten(const Node& node) {
  throw ValueError(
      fmt::format("[eval] a {} {} {} was overwritten in place (assign or optimizer step) before this result was "
                  "computed from it; evaluate the result "
                  "earlier, or keep a copy of the old value",
                  node.op->name, node.shape.str(), name_of(node.dtype)));
}

[[noreturn]] void throw_escaped(const Node& node) {
  throw ValueError(
      fmt::format("[scan] a value inside a loop was looked at, or is used outside of it (it depends on a {} {} carry "
                  "or slice): the function is recorded once and has no values; "
                  "return what you need as a result, and use cond, where or while_loop for decisions",
                  node.shape.str(), name_of(node.dtype)));
}

[[noreturn]] void throw_example(const Node& node) {
  throw ValueError(
      fmt::format("[vmap] a value that depends on an example {} {} was looked at: inside the mapped function examples "
                  "have no values, and what is kept of them "
                  "outside is not mapped; return it from the function",
                  node.shape.str(), name_of(node.dtype)));
}

uint64_t pack(uint64_t a, uint64_t b, uint64_t c) { return a << 40 | b << 20 | c; }

// What is a size in the key, visit_sizes() of core/ir/dynamic_sizes.h knows.
class KeyWriter {
  static constexpr uint64_t stored_mark = uint64_t{1} << 63, numbers_mark = uint64_t{1} << 62,
                            keep_marks = uint64_t{1} << 60;

 public:
  // `written`: storages that are updated in place; they are bound whole.
  KeyWriter(Capture& capture, std::span<Node* const> written) : capture_(capture) {
    capture_.key.reserve(capture.order.size() * 8);
    find_bases(written);
  }

  void node(const Node& node, const Numbering& number) {
    std::vector<uint64_t>& key = capture_.key;
    // A value is a value, whatever op it came from: a parameter before and after its first update is the same.
    key.push_back(reinterpret_cast<uint64_t>(node.has_value() ? &ops::leaf_op : planned_row(node.op)));
    // Marks say what follows: without them the view of a stored value could read like the attributes of a pending one.
    const bool numbers = !node.has_value() && has_numbers(node.attrs);
    const size_t ints = node.has_value() ? 0 : node.attrs.ints.size();
    const uint64_t marks =
        (node.has_value() ? stored_mark : keep_marks * static_cast<uint64_t>(node.keep)) | (numbers ? numbers_mark : 0);
    key.push_back(marks | pack(static_cast<uint64_t>(node.dtype), static_cast<uint64_t>(node.shape.rank()), ints));
    for (int64_t d : node.shape) key.push_back(static_cast<uint64_t>(d));
    if (node.has_value()) return leaf(node);
    for (int64_t i : node.attrs.ints) key.push_back(static_cast<uint64_t>(i));
    if (numbers) {
      key.push_back(std::bit_cast<uint64_t>(node.attrs.real));
      key.push_back(std::bit_cast<uint64_t>(node.attrs.real2));
    }
    for (const NodePtr& input : node.inputs) key.push_back(static_cast<uint64_t>(number.at(*input)));
    if (node.op == &ops::loop_op) {
      const std::vector<uint64_t>& body = as_loop(node).body->key;
      key.push_back(node.inputs.size());
      key.push_back(body.size());
      key.insert(key.end(), body.begin(), body.end());
    }
  }

  int storage_slot(const StoragePtr& storage) {
    const auto [at, fresh] = slots_.try_emplace(storage.get(), static_cast<int>(capture_.storages.size()));
    if (fresh) {
      const auto base = bases_.find(storage.get());
      capture_.storages.push_back(storage);
      capture_.bases.push_back(base == bases_.end() ? 0 : base->second);
    }
    return at->second;
  }

 private:
  // A batch of a data set on the device is a view at an offset: the part of it that a binding can take is no part of
  // the plan, so that all batches share one.
  void find_bases(std::span<Node* const> written) {
    for (const NodePtr& node : capture_.order) {
      if (!node->has_value() || node->host || node->view.offset == 0) continue;
      bases_.try_emplace(node->storage.get(), UINT64_MAX);
    }
    if (bases_.empty()) return;
    for (const NodePtr& node : capture_.order) {
      if (!node->has_value() || node->host) continue;
      const auto base = bases_.find(node->storage.get());
      if (base == bases_.end()) continue;
      const int64_t first = node->view.extent().first * static_cast<int64_t>(size_of(node->dtype));
      const uint64_t step = std::max<uint64_t>(64, node->device->caps().buffer_alignment);
      base->second = std::min(base->second, static_cast<uint64_t>(std::max<int64_t>(0, first)) / step * step);
    }
    for (const Node* target : written) {
      if (target != nullptr) bases_.erase(target->storage.get());
    }
  }

  void leaf(const Node& node) {
    std::vector<uint64_t>& key = capture_.key;
    if (node.host) {
      capture_.host_values.push_back(*node.host);
      key.push_back(~uint64_t{0});
      return;
    }
    const int slot = storage_slot(node.storage);
    key.push_back(static_cast<uint64_t>(slot));
    const View view = capture_.view(node, static_cast<size_t>(slot));
    key.push_back(static_cast<uint64_t>(view.offset));
    if (!view.is_dense()) {
      for (int d = 0; d < view.shape.rank(); ++d) key.push_back(static_cast<uint64_t>(view.strides[d]));
    } else {
      key.push_back(~uint64_t{1});
    }
  }

  Capture& capture_;
  std::unordered_map<const Storage*, int> slots_;
  std::unordered_map<const Storage*, uint64_t> bases_;  // of storages with a view that does not begin at their start
};

// The leaf whose memory `assign` may write: its target, seen through earlier pending assigns. Null unless that leaf is
// the memory's last owner.
Node* in_place_target(const Node& assign) {
  Node* target = assign.inputs[0].get();
  while (!target->has_value() && target->op == &ops::assign_op) target = target->inputs[0].get();
  return target->storage && target->view.is_dense() && target->storage.use_count() == 1 ? target : nullptr;
}

}  // namespace

// By bits: -0 is another constant than 0.
Capture capture(std::span<const NodePtr> roots) {
  Capture captured;
  Numbering number;
  for (const NodePtr& root : roots) append_topological(root, number, captured.order);

  // Before captured.storages takes shares of its own: the owners must be counted as the user left them.
  std::vector<Node*> in_place(captured.order.size(), nullptr);  // by position of the assign
  for (size_t i = 0; i < captured.order.size(); ++i) {
    const Node& node = *captured.order[i];
    if (node.overwritten) throw_overwritten(node);
    if (node.op == &ops::loop_arg_op) throw_escaped(node);
    if (is_example(node)) throw_example(node);
    if (!number_guard() && node.op == &ops::assign_op && !node.has_value()) in_place[i] = in_place_target(node);
  }

  KeyWriter writer(captured, in_place);
  for (const NodePtr& node : captured.order) writer.node(*node, number);

  std::unordered_set<const Node*> unheld_roots;
  for (const NodePtr& root : roots) {
    if (root->handles.load(std::memory_order_relaxed) == 0) unheld_roots.insert(root.get());
  }
  for (size_t i = 0; i < captured.order.size(); ++i) {
    const NodePtr& node = captured.order[i];
    if (node->has_value() || node->op == &ops::loop_op)
      continue;  // a loop has no value of its own: more results may be asked of it later
    if (node->handles.load(std::memory_order_relaxed) == 0 && !unheld_roots.contains(node.get())) continue;
    // Op by op a constant stays a number, which memory would round beside f16, until somebody looks at it.
    if (node->op == &ops::full_op && eager_mode() && std::find(roots.begin(), roots.end(), node) == roots.end())
      continue;
    const int slot = in_place[i] == nullptr ? -1 : writer.storage_slot(in_place[i]->storage);
    if (slot >= 0) captured.overwritten.push_back(in_place[i]);
    captured.key.push_back(pack(1, static_cast<uint64_t>(i), static_cast<uint64_t>(slot + 1)));
    captured.outputs.push_back(node);
    captured.assign_slots.push_back(slot);
  }
  return captured;
}

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
    } else if (node->op == &ops::assign_op || node->op == &ops::while_result_op) {
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
