// Gpt: the decoder-only transformer of GPT-2.
//
// Purpose: tokens (B, T) -> logits (B, T, vocabulary). Blocks normalise before they compute (pre-norm); the
// last projection shares its weight with the token embedding. Names follow GPT-2's: wte, wpe, h.0.ln_1, h.0.attn.c_attn, ..., ln_f.
// Radford et al. 2019, "Language models are unsupervised multitask learners".
// Invariants: modules are handles (nn/module.h). Errors: ValueError for sizes that do not fit, ShapeError for tokens beyond the context.
// Thread safety: none.
#pragma once

#include <vector>

#include "nn/layers.h"
#include "nn/norm.h"

namespace heddle::nn {

struct GptOptions {
  int64_t vocabulary = 50257;
  int64_t context = 1024;  // longest sequence
  int64_t layers = 12;
  int64_t heads = 12;
  int64_t width = 768;
  double dropout = 0.1;
  bool tanh_gelu = true;    // GPT-2's form of GELU; false: the exact one, as nanoGPT
  bool checkpoint = false;  // compute each block again for its gradient instead of keeping what it computed (core/graph/checkpoint.h)
  bool offload = false;     // keep what each block's gradient needs in host memory instead
};

// Parameters of GPT-2: 124,439,808; 354,823,168; 774,030,080; 1,557,611,200.
GptOptions gpt2();
GptOptions gpt2_medium();
GptOptions gpt2_large();
GptOptions gpt2_xl();
// nanoGPT's for characters: train_shakespeare_char, and the small one that it gives for a CPU. The vocabulary is that of tinyshakespeare.
GptOptions nanogpt_char(int64_t vocabulary = 65);
GptOptions nanogpt_char_cpu(int64_t vocabulary = 65);

// x + attention(ln_1(x)), then + mlp(ln_2(.)).
class GptBlock : public Module {
 public:
  GptBlock(const GptOptions& options, DeviceContext* device, Generator* generator);
  Tensor forward(const Tensor& x) override;  // (B, T, C) -> (B, T, C)

 private:
  Tensor attend(const Tensor& x);

  int64_t heads_;
  double dropout_;
  bool tanh_gelu_;
  Generator* generator_;
  LayerNorm ln_1_, ln_2_;
  Linear c_attn_, attn_proj_, c_fc_, mlp_proj_;
};

class Gpt : public Module {
 public:
  explicit Gpt(const GptOptions& options, DeviceContext* device = nullptr, Generator* generator = nullptr);
  // Tokens (B, T), i32 or i64, T at most the context.
  Tensor forward(const Tensor& tokens) override;
  const GptOptions& options() const { return options_; }

 private:
  GptOptions options_;
  Generator* generator_;
  Tensor wte_, wpe_;  // (vocabulary, C), (context, C)
  std::vector<GptBlock> blocks_;
  LayerNorm ln_f_;
};

}  // namespace heddle::nn
