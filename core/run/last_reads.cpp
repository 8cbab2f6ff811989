#include "heddle/core/run/last_reads.h"

#include <algorithm>

namespace heddle {

void LastReads::note(const Node& read, size_t segment) {
  size_t& last = last_.try_emplace(&read, segment).first->second;
  last = std::max(last, segment);
}

// Users before inputs, so that the last reader of what is computed again is known.
void LastReads::note(std::span<const NodePtr> order, const SegmentOf& segments,
                     const Callable<bool(const Node&)>& computed_again) {
  for (auto it = order.rbegin(); it != order.rend(); ++it) {
    const Node& node = **it;
    const size_t own = segments.at(&node), reads = computed_again(node) ? of(node, own) : own;
    for (const NodePtr& input : node.inputs) note(*input, reads);
  }
}

size_t LastReads::of(const Node& node, size_t own) const {
  const auto found = last_.find(&node);
  return found == last_.end() ? own : std::max(found->second, own);
}

std::vector<StoragePtr> values_read(std::span<const NodePtr> order) {
  std::vector<StoragePtr> values;
  for (const NodePtr& node : order) {
    for (const NodePtr& input : node->inputs) {
      if (input->storage) values.push_back(input->storage);
    }
  }
  return values;
}

}  // namespace heddle
