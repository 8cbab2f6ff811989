#include "heddle/core/graph/pending.h"

#include <atomic>

#include "heddle/core/base/of_this_thread.h"
#include "heddle/core/device/locked_device.h"

namespace heddle {
namespace {

struct Pending {
  std::vector<std::weak_ptr<Node>> nodes;
  int paused = 0;
};

Pending& pending() { return of_this_thread<Pending>(); }

}  // namespace

std::vector<std::weak_ptr<Node>>& pending_nodes() { return pending().nodes; }

PendingPause::PendingPause() { ++pending().paused; }
PendingPause::~PendingPause() { --pending().paused; }
bool PendingPause::active() { return pending().paused > 0; }

std::vector<NodePtr> held_pending() {
  std::vector<NodePtr> held;
  for (const std::weak_ptr<Node>& weak : pending_nodes()) {
    NodePtr node = weak.lock();
    if (node && !node->has_value() && node->handles.load(std::memory_order_relaxed) > 0)
      held.push_back(std::move(node));
  }
  return held;
}

}  // namespace heddle
