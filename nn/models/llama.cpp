#include "heddle/nn/models/llama.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string>

#include "heddle/core/device/context.h"
#include "heddle/core/graph/checkpoint.h"
#include "heddle/nn/init.h"
#include "heddle/nn/models/parts.h"
#include "heddle/nn/sizes.h"

namespace heddle::nn {
namespace {

// Norms begin as 1, biases as 0.
WeightSource drawn(const LlamaOptions& o, const ParameterOptions& p) {
  return [p, around_one = o.norm_around_one](const std::string& name, const Shape& shape) {
    Tensor values = heddle::zeros(parameter_shape("Llama", shape.dims()), DType::f32, p.device);
    if (shape.rank() == 1 && (around_one || name.ends_with(".bias"))) return Weight{values, {}};
    if (shape.rank() == 1) return Weight{heddle::ones(shape, DType::f32, p.device), {}};
    init::normal(values, 0, 0.02, p.generator);
    return Weight{values, {}};
  };
}

Projection unbiased_projection(const WeightSource& weights, const std::string& name, int64_t out, int64_t in) {
  const Shape shape{out, in};
  return Projection(weights(name + ".weight", shape), shape);
}

}  // namespace

Llama::Llama(const LlamaOptions& o, const ParameterOptions& p) : Llama(o, drawn(checked(o), p)) {}

Llama::Llama(const LlamaOptions& o, const WeightSource& weights)
    : Module("Llama"),
      options_(checked(o)),
      embed_tokens_(unbiased_projection(weights, "model.embed_tokens", o.vocabulary, o.width)),
      norm_(o, weights, "model.norm", o.width) {
  Parts model("LlamaModel"), layers("Blocks");
  model.add("embed_tokens", embed_tokens_);
  for (int64_t i = 0; i < o.layers; ++i) {
    const std::string path = fmt::format("model.layers.{}.", i);
    layers.add(std::to_string(i), blocks_.emplace_back(o, weights, path, i));
  }
  model.add("layers", layers);
  model.add("norm", norm_);
  add("model", model);
  if (!o.tied) head_.push_back(add("lm_head", unbiased_projection(weights, "lm_head", o.vocabulary, o.width)));
}

void Llama::check_tokens(const Tensor& tokens) const {
  if (tokens.rank() == 2 && tokens.dim(1) <= options_.context) return;
  throw ShapeError(fmt::format("[Llama] tokens are {}; expected (batch, length) with a length of at most {}",
                               tokens.shape().str(), options_.context));
}

// The sums of the blocks keep their digits where weights are stored in 16 bits.
Tensor Llama::embed(const Tensor& tokens) const {
  const Tensor rows = embed_tokens_.rows(tokens);
  const Tensor x = cast(rows, promote(rows.dtype(), DType::f32));
  return options_.embedding_scale == 1 ? x : x * options_.embedding_scale;
}

Tensor Llama::projected(const Tensor& features) {
  const Tensor y = head_.empty() ? embed_tokens_(features) : head_[0](features);
  return options_.logit_cap > 0 ? tanh(y / options_.logit_cap) * options_.logit_cap : y;
}

Tensor Llama::logits_of_last(const Tensor& x) { return projected(norm_(select(x, 1, -1))); }

Tensor Llama::features(const Tensor& tokens, const Tensor& segments) {
  check_tokens(tokens);
  Tensor x = embed(tokens), hidden;
  if (segments.defined()) {
    if (segments.shape() != tokens.shape())
      throw ShapeError(
          fmt::format("[Llama] segments are {}, expected {}", segments.shape().str(), tokens.shape().str()));
    const Tensor apart = unsqueeze(segments, 2) != unsqueeze(segments, 1);  // (B, T, T)
    hidden = unsqueeze(where(apart, -std::numeric_limits<double>::infinity(), zeros_like(cast(apart, DType::f32))), 1);
  }
  for (LlamaBlock& block : blocks_) {
    const auto pass = [&](const Tensor& in) { return hidden.defined() ? block.within(in, hidden) : block(in); };
    if (checkpoints_ && offloads_) x = offload(x);
    x = checkpoints_ ? checkpoint(pass, x) : pass(x);
  }
  return norm_(x);
}

Tensor Llama::forward(const Tensor& tokens) { return projected(features(tokens)); }

KvCache Llama::make_cache(int64_t batch, int64_t context) const {
  const int64_t positions = context > 0 ? std::min(context, options_.context) : options_.context;
  const Shape shape = parameter_shape("Llama", {batch, 2, options_.key_heads, positions, options_.size_of_head()});
  DeviceContext* device = &embed_tokens_.weight.device();
  KvCache cache{{}, zeros({1}, DType::i32, device)};
  for (int64_t i = 0; i < options_.layers; ++i) cache.layers.push_back(zeros(shape, embed_tokens_.dtype(), device));
  return cache;
}

Tensor Llama::read(const Tensor& tokens, KvCache& cache) {
  check_tokens(tokens);
  const NoGradScope no_grad;
  Tensor x = embed(tokens);
  for (size_t i = 0; i < blocks_.size(); ++i) x = blocks_[i].read(x, cache.layers[i]);
  cache.length.assign(full(cache.length.shape(), static_cast<double>(tokens.dim(1)), DType::i32, &x.device()));
  return logits_of_last(x);
}

Tensor Llama::step(const Tensor& tokens, KvCache& cache) {
  const NoGradScope no_grad;
  Tensor x = unsqueeze(embed(tokens), 1);  // (B, 1, C)
  for (size_t i = 0; i < blocks_.size(); ++i) x = blocks_[i].step(x, cache.layers[i], cache.length);
  cache.length.assign(cache.length + 1);
  return logits_of_last(x);
}

}  // namespace heddle::nn
