// Attention over positions that lie in parts on the ranks along an axis of a mesh: context parallelism, for functions
// that every rank runs (distributed/shard_map.h).
//
//   y = nn::ring_attention(q, k, v, "cp", {.causal = true});   // each rank: its T / n positions of all
//
// Purpose: sequences whose activations no rank has room for. Both functions are scaled_dot_product_attention() of the
// whole sequence, of which each rank gives and gets its positions, in the order of places. Values vary along the axes.
// Errors: AxisError outside of shard_map and for axes that are not there; ShapeError, DTypeError. Thread safety: none.
#pragma once

#include <optional>

#include "heddle/core/graph/tensor.h"
#include "heddle/distributed/axis_names.h"

namespace heddle::nn {

struct ContextAttentionOptions {
  bool causal = false;
  std::optional<double> scale;  // of q . k; 1 / sqrt(D) unless given
};

// q (B, H, T / n, D), k (B, J, T / n, D), v (B, J, T / n, E), of one size on all ranks: (B, H, T / n, E). Keys and
// values go around the ranks; each computes its queries against those that it has at the time and joins the results by
// the logarithms of their sums, so that no rank has scores, or keys and values of more than two ranks. The gradient
// goes around once more with those of keys and values, and computes the scores again; it has no gradient of its own.
// f16 and bf16 are computed and sent as f32. A causal rank has nothing to compute of the ranks behind it: the last one
// does most. Liu, Zaharia and Abbeel 2023, "Ring attention with blockwise transformers", arXiv 2310.01889.
Tensor ring_attention(const Tensor& q, const Tensor& k, const Tensor& v, const distributed::AxisNames& axes,
                      const ContextAttentionOptions& options = {}, Caller caller = Caller::current());

// The same by two exchanges: each rank gets all positions of H / n heads (of J / n for keys and values, which n has to
// divide), and gives the results back. Gradients of any order. Jacobs et al. 2023, "DeepSpeed Ulysses", arXiv
// 2309.14509.
Tensor all_to_all_attention(const Tensor& q, const Tensor& k, const Tensor& v, const distributed::AxisNames& axes,
                            const ContextAttentionOptions& options = {}, Caller caller = Caller::current());

}  // namespace heddle::nn
