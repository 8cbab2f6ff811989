// LoopNode: a loop in the graph, as its users and the planner read it: a body that was recorded once and is repeated.
// Internal to core and autograd; loops are made by core/graph/loop.h.
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

#include <memory>
#include <unordered_map>
#include <vector>

#include "heddle/core/graph/node.h"
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

}  // namespace heddle
