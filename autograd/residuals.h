// Residuals: what a part of a recorded graph that is evaluated first leaves for a part that is evaluated later.
//
//   const std::vector<NodePtr> recorded = pending_below(nodes_of({{y}}));              // the forward pass
//   const std::vector<NodePtr> found = nodes_of(vjp({{y}}, {{x, w}}, {{gradient}}));   // nothing is computed yet
//   const std::vector<NodePtr> kept = residuals(found, recorded);                      // what the second reads of it
//
// Purpose: a backward pass in two halves, gradients of inputs now and of weights later, without computing anything
// twice: partial evaluation of a linear map, as in Frostig et al. 2021, "Decomposing reverse-mode automatic
// differentiation" (arXiv 2105.09469), section 3. Evaluating the residuals with the earlier part is enough for the
// later one. Invariants: their order follows from the graph's structure alone, so it is the same for another recording
// of the same functions. Views and constants are no residuals but what they are made of is, and neither are cheap
// functions of values that are there. Nothing is recorded or computed. What is to stay pending is held as nodes: any
// evaluation evaluates what a Tensor holds. Thread safety: that of the graph (node.h).
#pragma once

#include <span>
#include <vector>

#include "heddle/core/graph/tensor.h"

namespace heddle {

// Of undefined ones null.
std::vector<NodePtr> nodes_of(std::span<const Tensor> tensors);
std::vector<Tensor> tensors_of(std::span<const NodePtr> nodes);

// Nodes without a value below these, they included, each once, inputs before users.
std::vector<NodePtr> pending_below(std::span<const NodePtr> roots);

// Of `earlier`, those that what is below `later` and not among `earlier` reads; those of `later` that are among
// `earlier` as well. Nodes that have a value by now are none.
std::vector<NodePtr> residuals(std::span<const NodePtr> later, std::span<const NodePtr> earlier);

}  // namespace heddle
