// LlamaBlock: one layer of a Llama: attention over rotary positions, then a gated MLP, each behind a norm.
//
// Purpose: the same layer over a whole text, over a text whose keys and values go into a cache, and over one position
// more. Names of parameters are Hugging Face's; what of them there is depends on LlamaOptions. Invariants: modules are
// handles (nn/module.h). Errors: ShapeError for weights that do not fit. Thread safety: none.
#pragma once

#include <optional>
#include <string>

#include "heddle/nn/models/llama_options.h"
#include "heddle/nn/module.h"
#include "heddle/nn/projection.h"

namespace heddle::nn {

// x / sqrt(mean(x^2) + eps) over the last axis, times the parameter "weight" or 1 + it.
class LlamaNorm : public Module {
 public:
  LlamaNorm(const LlamaOptions& options, const WeightSource& weights, const std::string& name, int64_t size);
  Tensor forward(const Tensor& x) override;

 private:
  Tensor weight_;
  double eps_;
  bool around_one_;
};

class LlamaBlock : public Module {
 public:
  // Names of weights begin with `path`.
  LlamaBlock(const LlamaOptions& options, const WeightSource& weights, const std::string& path, int64_t layer);
  Tensor forward(const Tensor& x) override;  // (B, T, C) -> (B, T, C)
  // The same; `hidden`, (B, 1, T, T) or undefined, is added to the scores.
  Tensor within(const Tensor& x, const Tensor& hidden);
  // The same, and the cache holds these T positions.
  Tensor read(const Tensor& x, Tensor& cache);
  // One position (B, 1, C) behind the `length` (1) i32 that the cache holds, which is written there.
  Tensor step(const Tensor& x, Tensor& cache, const Tensor& length);

 private:
  // Queries (B, heads, T, size); keys and values (B, key_heads, T, size).
  struct Projected {
    Tensor queries, keys, values;
  };
  void turn_as(const LlamaOptions& options);
  void name_parts();
  Projected project(const Tensor& x, const Tensor& positions);
  // Queries at positions (T) and keys 0, 1, ...; lengths: a cache's, of which they see so much; hidden: as within().
  Tensor attend(const Projected& heads, const Tensor& positions, const Tensor& lengths = {},
                const Tensor& hidden = {}) const;
  Tensor finish(const Tensor& x, const Tensor& attended);

  LlamaOptions options_;
  int64_t window_;
  double rope_base_ = 0;
  Tensor rope_factors_;
  LlamaNorm before_attention_, before_mlp_;
  std::optional<LlamaNorm> behind_attention_, behind_mlp_, query_norm_, key_norm_;
  Projection q_, k_, v_, o_, gate_, up_, down_;
};

}  // namespace heddle::nn
