#include "heddle/core/record/numbering.h"

#include <atomic>

#include "heddle/core/graph/post_order.h"

namespace heddle {
namespace {

uint64_t next_epoch() {
  static std::atomic<uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

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

}  // namespace heddle
