// Loops in the graph: a body that was recorded once and is repeated. Internal to core and autograd; the public
// functions are in core/functions/control/control.h.
//
// Purpose: one node, `loop`, stands for all iterations. Its body is a closed function: nodes over placeholders
// (`loop_arg`). What one iteration computes from carries, slices and tensors from outside is the body's `order`; after
// the last iteration a loop has results, each a node of its own (`loop_result`):
//   ints = {0, c}   carry c after the last iteration (before the first, there is no loop: length > 0)
//   ints = {1, k}   the value of body.order[k] in every iteration, stacked along a new first axis, in the order of the
//   slices
// So any value of a body can be asked for later; a gradient asks for those it reads. The loop node itself has no value
// (shape {0}).
//   loop   inputs: first carries, arrays whose slices along axis 0 the body reads, tensors from outside
//          ints = {length, carries, slices, reverse, checkpoint}   reverse: from the last slice to the first
// Invariants: a body is immutable and refers to nothing but its placeholders; args come in the order of the loop's
// inputs; the first `carries` results are the next carries and have their shapes and dtypes. Thread safety: recording
// is per thread; bodies are read only.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "heddle/core/device/context.h"
#include "heddle/core/graph/checkpoint.h"
#include "heddle/core/graph/node.h"
#include "heddle/core/graph/tensor.h"
#include "heddle/core/op/primitives.h"

namespace heddle {

// Of the rows of core/op/primitives.h, loop_arg is of kind leaf and the others of kind effect. while_result: its last
// input, which no gradient passes; the others are what of its history has one.
inline bool is_loop(const OpDef& op) { return &op == &ops::loop_op || &op == &ops::loop_result_op; }

struct LoopBody {
  std::vector<NodePtr> args;
  std::vector<NodePtr> order;                  // args, then the rest; inputs before users
  std::vector<NodePtr> results;                // in `order`
  std::unordered_map<const Node*, int> index;  // position in `order`
  std::vector<uint64_t> key;                   // equal for bodies that compute the same
  ~LoopBody();
};

struct LoopNode final : Node {
  std::shared_ptr<const LoopBody> body;
};
// `node` is a loop.
const LoopNode& as_loop(const Node& node);

struct LoopShape {
  int64_t length = 0;
  int carries = 0, slices = 0;
  bool reverse = false;
  bool checkpoint = false;  // the gradient computes values of the body again instead of keeping them
  static LoopShape of(const Node& loop);
};

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
