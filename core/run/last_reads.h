// LastReads: of a recorded graph that is cut into segments, the last segment that reads a node.
//
// Purpose: what a segment computes and a later one reads is kept, the rest let go. Invariants: what is computed again
// wherever it is read reads its inputs as late as it is read itself. Errors: none. Thread safety: plain values.
#pragma once

#include <cstddef>
#include <span>
#include <unordered_map>
#include <vector>

#include "heddle/core/base/callable.h"
#include "heddle/core/graph/node.h"

namespace heddle {

// That computes a node.
using SegmentOf = std::unordered_map<const Node*, size_t>;

class LastReads {
 public:
  // A reader that no segment of the graph is.
  void note(const Node& read, size_t segment);
  // All readers among `order`, inputs before users.
  void note(std::span<const NodePtr> order, const SegmentOf& segments,
            const Callable<bool(const Node&)>& computed_again);
  // Of a node that `own` computes: that one at least.
  size_t of(const Node& node, size_t own) const;

 private:
  std::unordered_map<const Node*, size_t> last_;
};

// Values that the graph reads: while whoever cuts it holds them, no assign is in place.
std::vector<StoragePtr> values_read(std::span<const NodePtr> order);

}  // namespace heddle
