// Llama: the decoder-only transformer of Llama, Mistral and SmolLM: RMS norms, rotary positions, heads of queries that
// share heads of keys, gated MLPs, no biases.
//
// Purpose: tokens (B, T) -> logits (B, T, vocabulary). Names are Hugging Face's: model.embed_tokens,
// model.layers.0.self_attn.q_proj, ..., model.norm, lm_head (none where it is the embedding, `tied`). Rotary positions
// turn element i of a head's first half with element i of its second, as Hugging Face's weights want it; GGUF's rows
// stand in another order (nn/models/llama_gguf.h). Touvron et al. 2023, "LLaMA: open and efficient foundation language
// models"; Su et al. 2021, "RoFormer"; Shazeer 2020, "GLU variants improve transformer"; Ainslie et al. 2023, "GQA".
// Invariants: modules are handles (nn/module.h). Errors: ValueError "[Llama] ..." for sizes that do not fit, ShapeError
// for tokens beyond the context. Thread safety: none.
#pragma once

#include <string>
#include <vector>

#include "heddle/nn/models/kv_cache.h"
#include "heddle/nn/norm.h"
#include "heddle/nn/parameter_options.h"
#include "heddle/nn/projection.h"

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
};

// Parameters: 134,515,008; 1,100,048,384.
LlamaOptions smollm2_135m();
LlamaOptions tiny_llama_1b();

// Cosines and signed sines of positions, for turning heads: (T, 1, 1, size / 2) and (T, 1, 2, size / 2).
struct RotaryAngles {
  Tensor cosines, sines;
};
// Positions (T), i32.
RotaryAngles rotary_angles(const Tensor& positions, int64_t size, double base);
// Heads (B, T, H, size), turned.
Tensor rotated(const Tensor& heads, const RotaryAngles& angles);

// x + attention(input_layernorm(x)), then + mlp(post_attention_layernorm(.)).
class LlamaBlock : public Module {
 public:
  // Names of weights begin with `path`.
  LlamaBlock(const LlamaOptions& options, const WeightSource& weights, const std::string& path, DeviceRef device);
  Tensor forward(const Tensor& x) override;  // (B, T, C) -> (B, T, C)
  // The same, and the cache holds these T positions.
  Tensor read(const Tensor& x, Tensor& cache);
  // One position (B, 1, C) behind the `length` (1) i32 that the cache holds, which is written there.
  Tensor step(const Tensor& x, Tensor& cache, const Tensor& length);

 private:
  // Queries (B, heads, T, size); keys and values (B, key_heads, T, size).
  struct Projected {
    Tensor queries, keys, values;
  };
  Projected project(const Tensor& x, const Tensor& positions);
  Tensor finish(const Tensor& x, const Tensor& attended);

  int64_t heads_, key_heads_, size_;
  double rope_base_;
  RMSNorm input_layernorm_, post_attention_layernorm_;
  Projection q_, k_, v_, o_, gate_, up_, down_;
};

class Llama : public Module {
 public:
  // First values from N(0, 0.02), as Hugging Face draws them.
  explicit Llama(const LlamaOptions& options, const ParameterOptions& parameters = {});
  // Weights that are there, asked for by Hugging Face's names; all on one device.
  Llama(const LlamaOptions& options, const WeightSource& weights, DeviceRef device = {});
  // Tokens (B, T), i32 or i64, T at most the context.
  Tensor forward(const Tensor& tokens) override;
  const LlamaOptions& options() const { return options_; }
  // What the last projection reads, (B, T, C), and that projection: for linear_cross_entropy().
  Tensor features(const Tensor& tokens);
  Projection head() const { return head_.empty() ? embed_tokens_ : head_[0]; }

  // An empty cache of this model's context, or of fewer positions.
  KvCache make_cache(int64_t batch = 1, int64_t context = 0) const;
  // Logits (B, vocabulary) behind tokens (B, T); the cache then holds these positions and no others. Records no
  // gradient, as step().
  Tensor read(const Tensor& tokens, KvCache& cache);
  // Logits (B, vocabulary) behind one token more for each row, (B). Wrong where a row's cache is full.
  Tensor step(const Tensor& tokens, KvCache& cache);

 private:
  void check_tokens(const Tensor& tokens) const;
  Tensor embed(const Tensor& tokens) const;
  Tensor logits(const Tensor& x);
  Tensor logits_of_last(const Tensor& x);

  LlamaOptions options_;
  Projection embed_tokens_;
  std::vector<LlamaBlock> blocks_;
  RMSNorm norm_;
  std::vector<Projection> head_;  // none where it is the embedding
};

}  // namespace heddle::nn
