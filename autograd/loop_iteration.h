// What derivatives of a loop share: one forward iteration recorded anew inside the body of the derivative's loop, and
// the values of it that are read from stacks. Internal to autograd.
//
// Purpose: rules_loop.cpp (a loop the other way, for cotangents) and loop_forward.cpp (one the same way, for tangents)
// compute with values of the forward iteration. The forward loop is asked to stack those; with checkpoint_body the
// carries alone, from which the body is computed again. Invariants: used within one BodyTrace of the caller's. Thread
// safety: recording is per thread.
#pragma once

#include <unordered_map>
#include <vector>

#include "heddle/core/graph/loop.h"

namespace heddle::autograd {

class LoopIteration {
 protected:
  explicit LoopIteration(NodePtr loop)
      : self_(std::move(loop)),
        loop_(as_loop(*self_)),
        body_(*loop_.body),
        shape_(LoopShape::of(loop_)),
        device_(*loop_.device) {}

  size_t carries() const { return static_cast<size_t>(shape_.carries); }
  size_t outer() const { return static_cast<size_t>(shape_.carries + shape_.slices); }  // first input from outside

  // The forward iteration, over stand-ins for its arguments.
  void call_forward();
  // Whether a value of the forward iteration is read from its stack.
  bool is_kept(const Node& node) const;
  // Whether it stands for a tensor that the body captures.
  bool is_from_outside(const Node& node) const;
  // Kept values that `results` read.
  std::vector<NodePtr> kept_below(const std::vector<NodePtr>& results) const;
  // Which values of the forward iteration `results` read: from now on `replaced_` says by what, an argument of the
  // trace each, whose stacks residual_stacks() gives.
  void find_replacements(const std::vector<NodePtr>& results, BodyTrace& trace);
  // One for each argument that find_replacements() added. Recorded outside of the trace.
  std::vector<NodePtr> residual_stacks() const;

  const NodePtr self_;
  const LoopNode& loop_;
  const LoopBody& body_;
  const LoopShape shape_;
  DeviceContext& device_;
  std::vector<NodePtr> forward_;  // by LoopBody::order
  std::unordered_map<const Node*, NodePtr> replaced_;

 private:
  std::unordered_map<const Node*, size_t> index_;  // into forward_
  std::vector<int> residuals_;
};

// The tangent of a loop: a loop the same way over tangents.
struct PushedLoop {
  NodePtr loop;                          // null: no tangent arrives anywhere
  std::unordered_map<int, int> carries;  // by carry of the forward loop: of this one
  std::unordered_map<int, int> values;   // by position in the forward body's order: in this one's
};
// `tangents` of the loop's inputs, undefined ones being zero.
PushedLoop push_loop(const NodePtr& loop, std::vector<Tensor> tangents);
// The tangent of one of the forward loop's results; undefined: zero.
Tensor pushed_part(const PushedLoop& pushed, const Node& result);

}  // namespace heddle::autograd
