// Sums over the iterations of a loop that are computed once, after it. Internal to autograd.
//
// Purpose: what a body captures gets a cotangent from each iteration, and its gradient is their sum. Where these terms
// are products and sums over rows (of a recurrent layer dW = sum over t of dG_t^T h_t and db = sum over t and rows of
// dG_t), the sum over t is one product, or one sum, of stacks: sum_t A_t B_t = [A_1 A_2 ...] [B_1; B_2; ...], so no
// iteration multiplies for it, nor reads and writes the sum. Invariants: a term is a node of the gradient's body before
// that is closed; its factors are nodes of that body, none of them a view or a cast of one that is stacked anyway.
// Thread safety: recording is per thread.
#pragma once

#include <functional>
#include <span>
#include <unordered_map>
#include <vector>

#include "heddle/core/graph/node.h"
#include "heddle/core/graph/tensor.h"

namespace heddle::autograd {

struct LateSums {
  std::vector<bool> chosen;      // by term: summed after the loop
  std::vector<NodePtr> factors;  // what is stacked for that, each once
};

// Which of `terms` (undefined: none) are summed after the loop. is_stacked: whether a node's value in every iteration
// is at hand anyway; for products up to `room` elements an iteration are stacked besides, for sums of rows nothing.
LateSums choose_late_sums(std::span<const Tensor> terms, const std::function<bool(const Node&)>& is_stacked,
                          int64_t room);

// The stacks (T, ...) of factors, along a new first axis.
using FactorStacks = std::unordered_map<const Node*, Tensor>;

// The sum over all iterations of a term that was chosen. Recorded outside of the loop, of the term's shape and dtype.
Tensor sum_after_loop(const NodePtr& term, const FactorStacks& stacks);

}  // namespace heddle::autograd
