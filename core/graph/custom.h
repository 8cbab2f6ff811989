// Values whose derivative was given by hand. Internal to core, autograd and nn; the public functions are in
// autograd/custom.h.
//
// Purpose: a custom node means its first input, the value; its derivative is not the value's but what the rule says.
// Inputs: the value, then the arguments that are differentiated, then what the rule wants to see again. The planner
// sees the value alone (the row is fused and decomposes to it). Invariants: a rule is immutable. A custom node that
// something records anew through make_node() has no rule: find_custom_rule() is null then. Thread safety: recording is
// per thread; rules may be found by any thread.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "heddle/core/graph/node.h"
#include "heddle/core/graph/tensor.h"
#include "heddle/core/op/primitives.h"

namespace heddle {

// Over the inputs of the node in order. At least one of the two; the other follows by transposition.
struct CustomRule {
  std::string name = "custom";
  size_t arguments = 0;  // inputs 1 to `arguments` are differentiated
  // One cotangent for each argument; undefined means zero.
  std::function<std::vector<Tensor>(std::span<const Tensor> inputs, const Tensor& cotangent)> vjp;
  // The tangent of the value from one for each argument, all defined; undefined means zero.
  std::function<Tensor(std::span<const Tensor> inputs, std::span<const Tensor> tangents)> jvp;
};

// value (floating), with that rule. Tracks when one of the arguments does.
Tensor make_custom(const Tensor& value, std::span<const Tensor> others, std::shared_ptr<const CustomRule> rule);
// Null for other nodes.
std::shared_ptr<const CustomRule> find_custom_rule(const Node& node);

}  // namespace heddle
