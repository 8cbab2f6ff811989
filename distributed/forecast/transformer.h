// A decoder-only transformer's training step, by its configuration.
//
// Purpose: layers of models that no machine here could record. Of a block with width h, h_kv = h key_heads/heads, f in
// the feed-forward part and rows of s tokens, an example's products are (Narayanan et al. 2021, arXiv 2104.04473,
// appendix): 2 s h (h + 2 h_kv) for queries, keys and values, 4 s^2 h for attention (half of it where a causal kernel
// leaves out what is masked), 2 s h^2 behind it, and 2 s h f for each matrix of the feed-forward part. Kept bytes are
// those of Korthikanti et al. 2022, arXiv 2205.05198, section 4.1: with 16 bits, s h (10 + 24 + 5 a s / h) where GELU,
// dropout and scores are kept, of which tensor parallelism divides all but the 10. Errors: ValueError that names the
// key. Thread safety: pure.
#pragma once

#include <string>

#include "heddle/distributed/forecast/layers.h"

namespace heddle::distributed {

struct TransformerConfig {
  std::string name = "transformer";
  int64_t layers = 0, width = 0, heads = 0, vocabulary = 0, sequence = 0;
  int64_t key_heads = 0;     // 0: heads
  int64_t feed_forward = 0;  // 0: 4 width
  bool gated = false;        // three matrices in the feed-forward part (SwiGLU) instead of two
  bool biases = true;        // of linear layers and norms
  bool tied = true;          // the last projection is the embedding
  bool positions = true;     // a learned embedding of positions
  bool dropout = true;
  bool keeps_scores =
      false;                // attention writes its s x s scores, masked ones included; otherwise it is tiled and causal
  bool recomputes = false;  // of each block
  bool sequence_parallel = false;
  DType dtype = DType::bf16;  // products; with 16 bits, weights have a copy in f32
};

StepLayers transformer_layers(const TransformerConfig& config);

}  // namespace heddle::distributed
