// Recording of loops: bodies that are recorded once and repeated. Internal to core and autograd; the public
// functions are in core/functions/control/control.h.
//
// Purpose: what a function records over placeholders is closed into the body of a loop (core/graph/loop_node.h), of
// which one node stands for all iterations; its results are asked for one by one. Invariants: what a trace hears of is
// never pending. Thread safety: recording is per thread; bodies are read only.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "heddle/core/device/context.h"
#include "heddle/core/graph/loop_node.h"
#include "heddle/core/graph/recompute_scope.h"
#include "heddle/core/graph/tensor.h"

namespace heddle {

NodePtr make_loop(DeviceContext& device, std::shared_ptr<const LoopBody> body, std::vector<NodePtr> inputs,
                  const LoopShape& shape);
Tensor loop_carry(const NodePtr& loop, int carry);
// `index` into body.order. A slice or an outer tensor is answered without the loop.
Tensor loop_stack(const NodePtr& loop, int index);

// The body's nodes, parallel to `order`, recorded anew over `args`.
std::vector<NodePtr> call_body(const LoopBody& body, std::span<const NodePtr> args);

// What `roots` compute, over other nodes: where `to` has an entry that stands in a node's place.
std::vector<NodePtr> substitute(std::span<const NodePtr> roots, const std::unordered_map<const Node*, NodePtr>& to);
// What `roots` need, inputs before users; nothing behind nodes that `stop` names.
std::vector<NodePtr> nodes_below(std::span<const NodePtr> roots, const std::function<bool(const Node&)>& stop);

// While alive, what this thread records belongs to a body: it is not pending and never evaluated. Traces nest.
class BodyTrace {
 public:
  // length: of the loop, for random numbers; 0: no loop, but a branch.
  BodyTrace(DeviceContext& device, int64_t length);
  ~BodyTrace();
  BodyTrace(const BodyTrace&) = delete;
  BodyTrace& operator=(const BodyTrace&) = delete;
  // The innermost of this thread, or null.
  static BodyTrace* current();

  Tensor argument(const Shape& shape, DType dtype);
  // The number of the iteration, i32 of rank 0: the index of its slice. Asking for it adds a slice to the body, after
  // those of the user.
  Tensor iteration();
  bool asked_iteration() const { return iteration_ != nullptr; }
  int64_t length() const { return length_; }
  BodyTrace* outer() const { return outer_; }

  // The results as a closed body. `captured`: what it reads from outside, its last arguments in that order. What no
  // argument goes into is computed outside, once, unless it costs nothing (constants and views), or `hoist` is false:
  // then it stays inside. Ends the trace.
  struct Closed {
    std::shared_ptr<const LoopBody> body;
    std::vector<NodePtr> captured;
  };
  Closed close(const std::vector<NodePtr>& results, bool hoist = true);
  // For note_pending(). What an inner body leaves to be computed outside of it is inside of this one.
  void note(const NodePtr& node) {
    for (BodyTrace* trace = this; trace != nullptr; trace = trace->outer_) trace->inside_.insert(node.get());
  }

 private:
  void end();
  RecomputePause marks_;
  DeviceContext& device_;
  int64_t length_;
  BodyTrace* outer_;
  bool ended_ = false;
  std::vector<NodePtr> args_;
  NodePtr iteration_;
  std::unordered_set<const Node*> inside_;
};

}  // namespace heddle
