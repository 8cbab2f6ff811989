// Llama: the decoder-only transformer of Llama, Mistral, SmolLM, Qwen, Phi 3 and Gemma: RMS norms, rotary positions,
// heads of queries that share heads of keys, gated MLPs.
//
// Purpose: tokens (B, T) -> logits (B, T, vocabulary). Names are Hugging Face's: model.embed_tokens,
// model.layers.0.self_attn.q_proj, ..., model.norm, lm_head (none where it is the embedding, `tied`). What families
// differ in is LlamaOptions. Weights that there are come from a GGUF file (nn/models/llama_gguf.h) or a folder of
// Hugging Face (nn/models/llama_folder.h). Touvron et al. 2023, "LLaMA: open and efficient foundation language models";
// Shazeer 2020, "GLU variants improve transformer"; Ainslie et al. 2023, "GQA"; Gemma Team 2024, "Gemma 2".
// Invariants: modules are handles (nn/module.h). Errors: ValueError "[Llama] ..." for sizes that do not fit, ShapeError
// for tokens beyond the context. Thread safety: none.
#pragma once

#include <vector>

#include "heddle/nn/models/kv_cache.h"
#include "heddle/nn/models/llama_block.h"
#include "heddle/nn/models/llama_options.h"
#include "heddle/nn/parameter_options.h"
#include "heddle/nn/projection.h"

namespace heddle::nn {

class Llama : public Module {
 public:
  // First values from N(0, 0.02), as Hugging Face draws them.
  explicit Llama(const LlamaOptions& options, const ParameterOptions& parameters = {});
  // Weights that are there, asked for by Hugging Face's names; all on one device.
  Llama(const LlamaOptions& options, const WeightSource& weights);
  // Tokens (B, T), i32 or i64, T at most the context.
  Tensor forward(const Tensor& tokens) override;
  const LlamaOptions& options() const { return options_; }
  // What the last projection reads, (B, T, C), and that projection: for linear_cross_entropy(). With segments (B, T),
  // i32, a position sees those of its own number alone: texts that lie one behind the other in a row. Rotary positions
  // go on over the row, which is the same, since scores depend on differences.
  Tensor features(const Tensor& tokens, const Tensor& segments = {});
  Tensor projected(const Tensor& features);  // the logits
  Projection head() const { return head_.empty() ? embed_tokens_ : head_[0]; }
  // Whether features() has each block computed again for its gradient instead of keeping what it computed
  // (core/graph/checkpoint.h): the same values in less memory and more time. With `offloads` what is kept, a block's
  // input, waits in the host's memory. At first it has not.
  void checkpoint_blocks(bool on = true, bool offloads = false) {
    checkpoints_ = on;
    offloads_ = offloads;
  }

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
  Tensor logits_of_last(const Tensor& x);

  LlamaOptions options_;
  bool checkpoints_ = false, offloads_ = false;
  Projection embed_tokens_;
  std::vector<LlamaBlock> blocks_;
  LlamaNorm norm_;
  std::vector<Projection> head_;  // none where it is the embedding
};

}  // namespace heddle::nn
