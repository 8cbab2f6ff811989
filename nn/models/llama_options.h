// LlamaOptions: what the families of decoder-only transformers differ in.
//
// Purpose: one network for Llama, Mistral, Qwen, Phi and Gemma: a family is a set of values, which
// nn/models/llama_families.h takes from a config.json and nn/models/llama_gguf.h from a GGUF file's metadata.
// Invariants: 0 and {} mean "as Llama has it". Errors: ValueError "[Llama] ..." of checked(). Thread safety: a value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace heddle::nn {

struct LlamaOptions {
  int64_t vocabulary = 32000;
  int64_t context = 2048;  // longest sequence
  int64_t layers = 22;
  int64_t heads = 32;
  int64_t key_heads = 4;  // of keys and values; each serves heads / key_heads heads of queries
  int64_t width = 2048;
  int64_t hidden = 5632;  // of the MLP
  double eps = 1e-5;      // of the norms
  double rope_base = 10000;
  bool tied = false;  // the last projection is the embedding

  int64_t head_size = 0;            // 0: width / heads
  bool qkv_bias = false;            // projections of queries, keys and values have biases
  bool head_norms = false;          // RMS norms of each head's queries and keys, before they turn
  bool norms_behind = false;        // norms behind attention and MLP as well, before their results are added
  bool norm_around_one = false;     // norms multiply by 1 + weight
  bool gelu = false;                // the MLP's gate is GELU (by tanh) instead of SiLU
  double embedding_scale = 1;       // of the tokens' rows
  double score_scale = 0;           // of q . k; 0: 1 / sqrt(head size)
  double score_cap = 0;             // scores x become cap tanh(x / cap); 0: they stay
  double logit_cap = 0;             // the same of logits
  int64_t window = 0;               // keys that a query sees, the last of them at its own position; 0: all before it
  std::vector<bool> windowed = {};  // layers that have the window; {}: all
  int64_t rope_size = 0;            // leading elements of a head that turn; 0: all
  std::vector<double> rope_factors = {};  // what frequencies are divided by, one for each pair; {}: 1
  double window_rope_base = 0;            // of layers with the window, without factors; 0: they turn as the others do

  int64_t size_of_head() const { return head_size > 0 ? head_size : width / heads; }
  int64_t size_of_rope() const { return rope_size > 0 ? rope_size : size_of_head(); }
  // 0 where the layer has none.
  int64_t window_of(int64_t layer) const {
    return windowed.empty() || windowed[static_cast<size_t>(layer)] ? window : 0;
  }
};

// The options, unless they do not fit together.
const LlamaOptions& checked(const LlamaOptions& options);

// Parameters: 134,515,008; 1,100,048,384.
LlamaOptions smollm2_135m();
LlamaOptions tiny_llama_1b();

}  // namespace heddle::nn
