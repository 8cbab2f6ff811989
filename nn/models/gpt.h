// Gpt: the decoder-only transformer of GPT-2.
//
// Purpose: tokens (B, T) -> logits (B, T, vocabulary). Blocks normalise before they compute (pre-norm); the
// last projection shares its weight with the token embedding. Names follow GPT-2's: wte, wpe, h.0.ln_1,
// h.0.attn.c_attn, ..., ln_f. Radford et al. 2019, "Language models are unsupervised multitask learners". Invariants:
// modules are handles (nn/module.h). Errors: ValueError for sizes that do not fit, ShapeError for tokens beyond the
// context. Thread safety: none.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "heddle/nn/layers.h"
#include "heddle/nn/mixture_of_experts.h"
#include "heddle/nn/models/kv_cache.h"
#include "heddle/nn/norm.h"
#include "heddle/nn/parameter_options.h"

namespace heddle::nn {

struct GptOptions {
  int64_t vocabulary = 50257;
  int64_t context = 1024;  // longest sequence
  int64_t layers = 12;
  int64_t heads = 12;
  int64_t width = 768;
  double dropout = 0.1;
  bool tanh_gelu = true;  // GPT-2's form of GELU; false: the exact one, as nanoGPT
  bool checkpoint =
      false;  // compute each block again for its gradient instead of keeping what it computed (core/graph/checkpoint.h)
  bool offload = false;  // keep what each block's gradient needs in host memory instead
  // Above 0: the MLP of each block is a mixture of so many (nn/mixture_of_experts.h), without biases.
  int64_t experts = 0;
  int64_t top_k = 2;
  double capacity_factor = 1.25;
};

// Parameters of GPT-2: 124,439,808; 354,823,168; 774,030,080; 1,557,611,200.
GptOptions gpt2();
GptOptions gpt2_medium();
GptOptions gpt2_large();
GptOptions gpt2_xl();
// nanoGPT's for characters: train_shakespeare_char, and the small one that it gives for a CPU. The vocabulary is that
// of tinyshakespeare.
GptOptions nanogpt_char(int64_t vocabulary = 65);
GptOptions nanogpt_char_cpu(int64_t vocabulary = 65);

// x + attention(ln_1(x)), then + mlp(ln_2(.)), or a mixture of such.
class GptBlock : public Module {
 public:
  GptBlock(const GptOptions& options, const ParameterOptions& parameters);
  Tensor forward(const Tensor& x) override;  // (B, T, C) -> (B, T, C)
  // The same, and the cache holds these T positions. Evaluation only: no dropout.
  Tensor read(const Tensor& x, Tensor& cache);
  // One position (B, 1, C) behind the `length` (1) i32 that the cache holds, which is written there: this row and no
  // other.
  Tensor step(const Tensor& x, Tensor& cache, const Tensor& length);

 private:
  // Queries (B, heads, T, size), keys and values (B, 2, heads, T, size), in the cache's dtype.
  struct Projected {
    Tensor queries, keys_and_values;
  };
  Projected project(const Tensor& x, DType cached);
  Tensor attend(const Tensor& x);
  Tensor attend(const Tensor& x, const Tensor& queries, const Tensor& keys_and_values, const AttentionOptions& how);
  Tensor finish(const Tensor& x, const Tensor& attended);
  Tensor mlp(const Tensor& x);

  int64_t heads_;
  double dropout_;
  bool tanh_gelu_;
  Generator* generator_;
  LayerNorm ln_1_, ln_2_;
  Linear c_attn_, attn_proj_;
  std::optional<Linear> c_fc_, mlp_proj_;      // these, or
  std::shared_ptr<MixtureOfExperts> mixture_;  // where there are experts
};

class Gpt : public Module {
 public:
  explicit Gpt(const GptOptions& options, const ParameterOptions& parameters = {});
  // Tokens (B, T), i32 or i64, T at most the context.
  Tensor forward(const Tensor& tokens) override;
  const GptOptions& options() const { return options_; }

  // An empty cache of this model's context.
  KvCache make_cache(int64_t batch = 1) const;
  // Logits (B, vocabulary) behind tokens (B, T); the cache then holds these positions and no others. Records no
  // gradient, as step().
  Tensor read(const Tensor& tokens, KvCache& cache);
  // Logits (B, vocabulary) behind one token more for each row, (B). Wrong where a row's cache is full.
  Tensor step(const Tensor& tokens, KvCache& cache);

 private:
  void check_tokens(const Tensor& tokens) const;
  Tensor embed(const Tensor& tokens, const Tensor& positions) const;
  Tensor logits_of_last(const Tensor& x);
  Tensor first_positions(const Tensor& tokens) const;
  GptOptions options_;
  Generator* generator_;
  Tensor wte_, wpe_;  // (vocabulary, C), (context, C)
  std::vector<GptBlock> blocks_;
  LayerNorm ln_f_;
};

}  // namespace heddle::nn
