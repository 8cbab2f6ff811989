// MultiheadAttention: attention of several heads with its projections.
//
//   nn::MultiheadAttention attention(64, 8, {.dropout = 0.1});
//   const Tensor y = attention.run(queries, keys, values, {.key_padding_mask = padding});
//
// Purpose: PyTorch's nn.MultiheadAttention with batch_first=True: q (N, T, E), k (N, S, kdim), v (N, S, vdim) to
// (N, T, E), by core's fused attention. Parameters, their names and first values are PyTorch's: in_proj_weight (3 E,
// E), or q_proj_weight (E, E), k_proj_weight (E, kdim), v_proj_weight (E, vdim) where the widths differ; in_proj_bias
// (3 E); out_proj.weight, out_proj.bias. Vaswani et al. 2017, "Attention is all you need". Invariants: modules are
// handles (nn/module.h). Where PyTorch's output is NaN because a query sees no key, the heads give zeros here. Errors:
// ValueError, ShapeError and DTypeError for what does not fit. Thread safety: none.
#pragma once

#include "heddle/core/device/device_ref.h"
#include "heddle/nn/layers.h"
#include "heddle/nn/module.h"

namespace heddle::nn {

struct MultiheadAttentionOptions {
  bool bias = true;            // of all four projections
  double dropout = 0;          // of the weights, while training
  int64_t kdim = 0, vdim = 0;  // widths of keys and values; 0: that of the queries
  DeviceRef device = {};
  Generator* generator = nullptr;  // null: the process's
};

// What a query does not see; without any it sees every key. Masks are bool, true: hidden, or floating: added to the
// scores.
struct AttentionMasks {
  Tensor attn_mask = {};         // (T, S), or (N * heads, T, S)
  Tensor key_padding_mask = {};  // (N, S)
  bool is_causal = false;        // query i sees keys 0 to i; T must be S
};

class MultiheadAttention : public Module {
 public:
  MultiheadAttention(int64_t embed_dim, int64_t num_heads, const MultiheadAttentionOptions& options = {});

  Tensor run(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionMasks& masks = {});
  // weights (N, T, S): of each key for each query, before dropout, the mean over the heads. They are computed beside
  // the output, and are NaN for a query that sees no key.
  struct Result {
    Tensor output, weights;
  };
  Result run_with_weights(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionMasks& masks = {});
  // Self-attention: run(x, x, x).
  Tensor forward(const Tensor& x) override { return run(x, x, x); }

  Tensor in_proj_weight, q_proj_weight, k_proj_weight, v_proj_weight;  // the first, or the others
  Tensor in_proj_bias;                                                 // undefined without bias
  Linear out_proj;

 private:
  struct Projected {
    Tensor q, k, v;  // (N, heads, T or S, size)
  };
  Projected project(const Tensor& q, const Tensor& k, const Tensor& v) const;
  AttentionOptions masked(const Projected& heads, const AttentionMasks& masks) const;
  Tensor attend(const Projected& heads, const AttentionOptions& how);

  int64_t embed_dim_, num_heads_;
  double dropout_;
  Generator* generator_;
};

}  // namespace heddle::nn
