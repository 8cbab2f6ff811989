// The gradient rules: one row per op.
//
// Purpose: what vjp() asks at each node. Elementwise rows stand in autograd/rules_elementwise.inc; the others in
// rules_*.cpp, by kind.
// Invariants: every row of all_ops() has a rule or a reason (a test checks that); a rule makes nodes only, and only for
// the inputs that are wanted; what it returns has the shape and dtype of that input (vjp() checks).
// Thread safety: the table is made on first use and then only read.
#pragma once

#include <span>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "heddle/core/graph/node.h"
#include "heddle/core/graph/tensor.h"

namespace heddle::autograd {

// What a rule sees: the node, its inputs and output as tensors, the cotangent of the output; it fills `result`.
struct RuleCall {
  const Node& node;
  Tensor out;
  Tensor g;
  std::vector<Tensor> in;
  std::vector<bool> wanted;    // per input: is its cotangent asked for?
  std::vector<Tensor> result;  // per input; undefined means zero
  // Of a loop, which has no value itself: the results that were asked of it (core/graph/loop.h) and their cotangents.
  std::vector<std::pair<NodePtr, Tensor>> parts = {};

  bool wants(size_t i) const { return wanted[i]; }
};

using Rule = void (*)(RuleCall& call);

struct GradientRow {
  Rule rule = nullptr;  // null: no gradient, and `reason` says why
  std::string_view reason;
};
using RuleTable = std::unordered_map<const OpDef*, GradientRow>;

// The row of that op, or null when nobody wrote one.
const GradientRow* find_gradient(const OpDef& op);

// Of rows that users define (core/op/user_row.h).
const GradientRow& user_gradient_row();

// vjp() that asks nothing of what is behind the nodes `stops`, which may be among the inputs.
std::vector<Tensor> vjp_until(std::span<const Tensor> outputs, std::span<const Tensor> inputs,
                              std::span<const Tensor> cotangents, std::unordered_set<const Node*> stops);

// Each adds its rows; called once.
void add_elementwise_rules(RuleTable& table);
void add_reduce_rules(RuleTable& table);
void add_movement_rules(RuleTable& table);
void add_index_rules(RuleTable& table);
void add_contraction_rules(RuleTable& table);
void add_fused_rules(RuleTable& table);
void add_attention_rules(RuleTable& table);
void add_scan_rules(RuleTable& table);
void add_linalg_rules(RuleTable& table);
void add_spectral_rules(RuleTable& table);
void add_loop_rules(RuleTable& table);
void add_collective_rules(RuleTable& table);
void add_custom_rules(RuleTable& table);
void add_reasons(RuleTable& table);

}  // namespace heddle::autograd
