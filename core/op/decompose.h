// Decompositions of the rows that have one: the same value from simpler ops.
//
// Purpose: a fused op's fallback, default gradient and vmap rule; the op table names them. Each takes a node of its row
// and records the equivalent graph over the node's inputs. Half-precision inputs are computed in f32 and rounded once
// at the end. A decomposition is recorded with the functions of core/functions/ and is defined there, beside the
// function that records its row: this header only declares them. decompose_custom() stands in core/graph/custom.cpp.
// Thread safety: recording is per thread.
#pragma once

namespace heddle {

class Tensor;
struct Node;

Tensor decompose_softmax(const Node& node);  // functions/nn/decompose_softmax.cpp
Tensor decompose_log_softmax(const Node& node);
Tensor decompose_logsumexp(const Node& node);
Tensor decompose_cross_entropy(const Node& node);
Tensor decompose_matmul_packed(const Node& node);  // functions/linalg/packed.cpp
Tensor decompose_matmul_packed_input_grad(const Node& node);
Tensor decompose_copy_rows(const Node& node);  // functions/shape/scatter.cpp
Tensor decompose_attention(const Node& node);  // functions/nn/decompose_attention.cpp
Tensor decompose_attention_query_gradient(const Node& node);
Tensor decompose_attention_key_gradient(const Node& node);
Tensor decompose_attention_bias_gradient(const Node& node);
Tensor decompose_custom(const Node& node);

namespace linalg {
Tensor decompose_cholesky(const Node& node);  // functions/linalg/decompose_linalg.cpp
Tensor decompose_lu(const Node& node);
Tensor decompose_solve_triangular(const Node& node);
Tensor decompose_linear_solve(const Node& node);
Tensor decompose_det(const Node& node);
Tensor decompose_qr(const Node& node);  // functions/linalg/decompose_spectral.cpp
Tensor decompose_eigh(const Node& node);
Tensor decompose_svd(const Node& node);
}  // namespace linalg

}  // namespace heddle
