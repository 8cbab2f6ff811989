// Softmax and log-softmax that a user wrote out, as autograd sees them.
//
// Purpose: their gradient is that of the fused row, y (g - sum(g y)) or g - exp(y) sum(g): no cotangent passes through
// the exponentials, their sum and the largest of a row, whose parts cancel. Invariants: the same up to rounding; only
// while the pass `softmax` is on (core/simplify/passes.h), and where nobody holds what the row is made of. Thread
// safety: pure functions; recording is per thread.
#pragma once

#include <optional>

#include "heddle/core/graph/node.h"
#include "heddle/core/graph/tensor.h"

namespace heddle::autograd {

struct WrittenRow {
  NodePtr x;     // what the row is a softmax of
  Tensor slope;  // its cotangent
};
// Nothing where `node` ends no such row. `g`: the node's cotangent.
std::optional<WrittenRow> differentiate_written_row(const NodePtr& node, const Tensor& g);

}  // namespace heddle::autograd
