// Decompositions of the fused rows: the same value from simpler ops.
//
// Purpose: a fused op's fallback, default gradient and vmap rule. Each takes a node of its row and records the equivalent graph over the
// node's inputs. Half-precision inputs are computed in f32 and rounded once at the end. Thread safety: recording is per thread.
#pragma once

namespace heddle {

class Tensor;
struct Node;

Tensor decompose_softmax(const Node& node);
Tensor decompose_log_softmax(const Node& node);
Tensor decompose_logsumexp(const Node& node);
Tensor decompose_cross_entropy(const Node& node);
Tensor decompose_copy_rows(const Node& node);

}  // namespace heddle
