#include "heddle/core/record/capture.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <unordered_set>

#include "heddle/core/graph/key_writer.h"
#include "heddle/core/graph/lender.h"
#include "heddle/core/graph/number_guard.h"
#include "heddle/core/graph/pending.h"
#include "heddle/core/graph/post_order.h"
#include "heddle/core/graph/tensor.h"
#include "heddle/core/graph/transform.h"
#include "heddle/core/op/primitives.h"
#include "heddle/core/record/bound_storages.h"

namespace heddle {
namespace {

uint64_t next_epoch() {
  static std::atomic<uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
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

[[noreturn]] void throw_lent(const Node& node) {
  throw ValueError(
      fmt::format("[eval] a {} {} was looked at whose elements several ranks share: it is whole only while the "
                  "trainer computes from it",
                  node.shape.str(), name_of(node.dtype)));
}

[[noreturn]] void throw_not_made(const Node& node) {
  const std::string line = node.where.str();
  throw AxisError(
      fmt::format("[{}] the result {} {}{} was never made: its program of ranks has ended, or an earlier collective "
                  "failed; return it from shard_map's function, or look at it there",
                  node.op->name, node.shape.str(), name_of(node.dtype), line.empty() ? "" : " of " + line));
}

void check_capturable(const Node& node) {
  if (communicates(*node.op) && !node.has_value()) throw_not_made(node);
  if (node.overwritten) throw_overwritten(node);
  if (node.op == &ops::loop_arg_op) throw_escaped(node);
  if (is_lent(node) && !node.has_value()) throw_lent(node);
  if (is_example(node)) throw_example(node);
}

// The leaf whose memory `assign` may write: its target, seen through earlier pending assigns. Null unless that leaf is
// the memory's last owner.
Node* in_place_target(const Node& assign) {
  Node* target = assign.inputs[0].get();
  while (!target->has_value() && target->op == &ops::assign_op) target = target->inputs[0].get();
  return target->storage && target->view.is_dense() && target->storage.use_count() == 1 ? target : nullptr;
}

// By position of the assign, the leaf that it overwrites or null.
std::vector<Node*> find_in_place(const std::vector<NodePtr>& order) {
  std::vector<Node*> in_place(order.size(), nullptr);
  for (size_t i = 0; i < order.size(); ++i) {
    const Node& node = *order[i];
    if (!number_guard() && node.op == &ops::assign_op && !node.has_value()) in_place[i] = in_place_target(node);
  }
  return in_place;
}

void write_leaf(const Node& node, Capture& captured, BoundStorages& storages, KeyWriter& key) {
  if (node.host) {
    captured.host_values.push_back(*node.host);
    return key.host_value(node);
  }
  const int slot = storages.slot(node.storage);
  key.stored_value(node, slot, captured.view(node, static_cast<size_t>(slot)));
}

// Whether a captured node becomes an output: somebody may ask for its value.
class Wanted {
 public:
  explicit Wanted(std::span<const NodePtr> roots) : roots_(roots) {
    for (const NodePtr& root : roots) {
      if (!is_held(*root)) unheld_roots_.insert(root.get());
    }
  }
  bool operator()(const NodePtr& node) const {
    // A loop has no value of its own: more results may be asked of it later.
    if (node->has_value() || node->op == &ops::loop_op) return false;
    if (!is_held(*node) && !unheld_roots_.contains(node.get())) return false;
    // Op by op a constant stays a number, which memory would round beside f16, until somebody looks at it.
    return node->op != &ops::full_op || !eager_mode() || std::find(roots_.begin(), roots_.end(), node) != roots_.end();
  }

 private:
  static bool is_held(const Node& node) { return node.handles.load(std::memory_order_relaxed) != 0; }

  std::span<const NodePtr> roots_;
  std::unordered_set<const Node*> unheld_roots_;
};

}  // namespace

Numbering::Numbering() : epoch_(next_epoch()) {}

bool Numbering::add(Node& node, int number) {
  if (node.has_value()) return finished_.try_emplace(&node, number).second;
  if (node.capture_epoch == epoch_) return false;
  node.capture_epoch = epoch_;
  node.capture_number = number;
  return true;
}

void append_topological(const NodePtr& root, Numbering& number, std::vector<NodePtr>& order) {
  if (number.contains(*root)) return;
  post_order(
      root, [&](const NodePtr& input) { return !number.contains(*input); },
      [](const Node& node) { return !node.has_value(); },
      [&](const NodePtr& node) {
        if (number.add(*node, static_cast<int>(order.size()))) order.push_back(node);
      });
}

Capture capture(std::span<const NodePtr> roots) {
  Capture captured;
  Numbering number;
  for (const NodePtr& root : roots) append_topological(root, number, captured.order);
  for (const NodePtr& node : captured.order) check_capturable(*node);
  // Before captured.storages takes shares of its own: the owners must be counted as the user left them.
  const std::vector<Node*> in_place = find_in_place(captured.order);

  BoundStorages storages(captured, in_place);
  captured.key.reserve(captured.order.size() * 8);
  captured.sizes.reserve(captured.order.size() * 4);
  KeyWriter key(captured.key, &captured.sizes);
  for (const NodePtr& node : captured.order) {
    if (node->has_value())
      write_leaf(*node, captured, storages, key);
    else
      key.pending(*node, [&](const Node& input) { return number.at(input); });
  }

  const Wanted wanted(roots);
  for (size_t i = 0; i < captured.order.size(); ++i) {
    const NodePtr& node = captured.order[i];
    if (!wanted(node)) continue;
    const int slot = in_place[i] == nullptr ? -1 : storages.slot(in_place[i]->storage);
    if (slot >= 0) captured.overwritten.push_back(in_place[i]);
    key.output(i, slot);
    captured.outputs.push_back(node);
    captured.assign_slots.push_back(slot);
  }
  return captured;
}

}  // namespace heddle
