// Attention.
//
// Errors: ShapeError, DTypeError, ValueError. Thread safety: recording is per thread.
#pragma once

#include <optional>

#include "heddle/core/graph/tensor.h"

namespace heddle {

struct Generator;  // core/functions/random/generator.h

struct AttentionOptions {
  Tensor bias;      // floating, broadcasts to (B, H, T, S); added to the scores; -infinity hides a key. Has a gradient
  Tensor key_mask;  // bool (B, S): true where a key may be attended to
  Tensor key_lengths;   // i32 or i64 (B): keys from there on are hidden, and not even read
  bool causal = false;  // query i sees keys up to i + S - T: the last query sees all, as in generation with a cache
  std::optional<double> scale;  // of q . k; 1 / sqrt(D) unless given
  double dropout = 0;           // of the weights; they are drawn again, not stored, for the gradient
  Generator* generator = nullptr;
};
// softmax(scale q k^T + bias) v for q (B, H, T, D), k (B, J, S, D), v (B, J, S, E): (B, H, T, E). H is a multiple of J,
// and query head h reads key head h / (H / J). One pass with online softmax; no matrix of scores is stored, in the
// gradient neither. A query that sees no key gives zeros. Any strides: pieces of one (B, T, 3, H, D) projection are
// read in place. Heads of more than 256 elements, and f64, are computed by the unfused graph. ShapeError, DTypeError,
// ValueError. Dao et al., "FlashAttention: fast and memory-efficient exact attention", 2022.
Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                    const AttentionOptions& options = {}, Caller caller = Caller::current());

}  // namespace heddle
