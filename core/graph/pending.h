// What this thread has recorded and not yet computed.
//
// Purpose: evaluate() (core/graph/evaluate.h) takes from here what is computed together. Invariants: nodes are
// remembered weakly; recording keeps nothing alive. Thread safety: all state is thread-local.
#pragma once

#include <memory>
#include <vector>

#include "heddle/core/graph/node.h"

namespace heddle {

// This thread's, in the order of recording: for evaluate() and note_pending().
std::vector<std::weak_ptr<Node>>& pending_nodes();

// While alive, new nodes on this thread are neither remembered as pending nor evaluated eagerly (used inside passes).
class PendingPause {
 public:
  PendingPause();
  ~PendingPause();
  PendingPause(const PendingPause&) = delete;
  PendingPause& operator=(const PendingPause&) = delete;
  static bool active();
};

// Nodes of this thread that are held by a Tensor and have no value.
std::vector<NodePtr> held_pending();

}  // namespace heddle
