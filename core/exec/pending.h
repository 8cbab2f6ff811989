// What this thread has recorded and not yet computed.
//
// Invariants: nodes are remembered weakly; recording keeps nothing alive. Thread safety: all state is thread-local.
#pragma once

#include <vector>

#include "core/graph/node.h"

namespace heddle {

// While alive, new nodes on this thread are neither remembered as pending nor evaluated eagerly (used inside passes).
class PendingPause {
 public:
  PendingPause();
  ~PendingPause();
  PendingPause(const PendingPause&) = delete;
  PendingPause& operator=(const PendingPause&) = delete;
};

// Nodes of this thread that are held by a Tensor and have no value.
std::vector<NodePtr> held_pending();

}  // namespace heddle
