#include "heddle/nn/models/gpt.h"

#include <fmt/format.h>

#include <cmath>

#include "heddle/core/device/context.h"
#include "heddle/core/graph/checkpoint.h"
#include "heddle/nn/models/gpt_mixture.h"
#include "heddle/nn/models/parts.h"
#include "heddle/nn/sizes.h"

namespace heddle::nn {
namespace {

// GPT-2 draws weights from N(0, 0.02), those that end in a residual sum from a distribution narrower by sqrt(2 *
// layers).
Linear linear(int64_t in, int64_t out, double stddev, const ParameterOptions& p) {
  Linear layer(in, out, {.device = p.device, .generator = p.generator});
  init::normal(layer.weight, 0, stddev, p.generator);
  init::zeros(layer.bias);
  return layer;
}

Tensor embedding_table(int64_t rows, int64_t width, double stddev, const ParameterOptions& p) {
  Tensor table = heddle::zeros(parameter_shape("Gpt", {rows, width}), DType::f32, p.device);
  init::normal(table, 0, stddev, p.generator);
  return table;
}

double residual_stddev(const GptOptions& o) { return 0.02 / std::sqrt(2.0 * static_cast<double>(o.layers)); }

const GptOptions& checked(const GptOptions& o) {
  check_sizes("Gpt", {{"vocabulary", o.vocabulary}, {"context", o.context}, {"heads", o.heads}, {"width", o.width}});
  checked_size("Gpt", "layers", o.layers, most_layers);
  if (o.width % o.heads != 0)
    throw ValueError(fmt::format("[Gpt] {} heads do not divide the width {}", o.heads, o.width));
  if (!(o.dropout >= 0 && o.dropout < 1))
    throw ValueError(fmt::format("[Gpt] dropout is {}; it must be in [0, 1)", o.dropout));
  if (o.experts != 0) checked_mixture("Gpt", mixture_options(o, {}));
  return o;
}

MixtureOfExperts mixture(const GptOptions& o, const ParameterOptions& p) {
  MixtureOfExperts made(o.width, 4 * o.width, mixture_options(o, p));
  init::normal(made.router.weight, 0, 0.02, p.generator);
  init::normal(made.up, 0, 0.02, p.generator);
  init::normal(made.down, 0, residual_stddev(o), p.generator);
  return made;
}

Parts named(const char* kind, const char* first, const Linear& a, const char* second, const Linear& b) {
  Parts parts(kind);
  parts.add(first, a);
  parts.add(second, b);
  return parts;
}

Parts table(Tensor& weight) {
  Parts parts("Embedding");
  weight = parts.add_parameter("weight", weight);
  return parts;
}

}  // namespace

GptOptions gpt2() { return {}; }
GptOptions gpt2_medium() { return {.layers = 24, .heads = 16, .width = 1024}; }
GptOptions gpt2_large() { return {.layers = 36, .heads = 20, .width = 1280}; }
GptOptions gpt2_xl() { return {.layers = 48, .heads = 25, .width = 1600}; }
GptOptions nanogpt_char(int64_t vocabulary) {
  return {.vocabulary = vocabulary,
          .context = 256,
          .layers = 6,
          .heads = 6,
          .width = 384,
          .dropout = 0.2,
          .tanh_gelu = false};
}
GptOptions nanogpt_char_cpu(int64_t vocabulary) {
  return {
      .vocabulary = vocabulary, .context = 64, .layers = 4, .heads = 4, .width = 128, .dropout = 0, .tanh_gelu = false};
}

GptBlock::GptBlock(const GptOptions& o, const ParameterOptions& p)
    : Module("GptBlock"),
      heads_(o.heads),
      dropout_(o.dropout),
      tanh_gelu_(o.tanh_gelu),
      generator_(p.generator),
      ln_1_(add("ln_1", LayerNorm(o.width, {.device = p.device}))),
      ln_2_(LayerNorm(o.width, {.device = p.device})),
      c_attn_(linear(o.width, 3 * o.width, 0.02, p)),
      attn_proj_(linear(o.width, o.width, residual_stddev(o), p)) {
  add("attn", named("Attention", "c_attn", c_attn_, "c_proj", attn_proj_));
  add("ln_2", ln_2_);
  if (o.experts > 0) {
    mixture_ = std::make_shared<MixtureOfExperts>(add("mlp", mixture(o, p)));
    return;
  }
  c_fc_ = linear(o.width, 4 * o.width, 0.02, p);
  mlp_proj_ = linear(4 * o.width, o.width, residual_stddev(o), p);
  add("mlp", named("Mlp", "c_fc", *c_fc_, "c_proj", *mlp_proj_));
}

Tensor GptBlock::mlp(const Tensor& x) {
  if (mixture_) return (*mixture_)(x);
  const Tensor inner = (*c_fc_)(x);
  return (*mlp_proj_)(tanh_gelu_ ? gelu_tanh(inner) : gelu(inner));
}

Tensor GptBlock::attend(const Tensor& x) {
  AttentionOptions how;
  how.causal = true;
  how.dropout = training() ? dropout_ : 0;
  how.generator = generator_;
  return attn_proj_(self_attention(c_attn_(x), heads_, how));
}

Tensor GptBlock::forward(const Tensor& x) { return finish(x, attend(ln_1_(x))); }

Tensor GptBlock::read(const Tensor& x, Tensor& cache) {
  const auto [queries, added] = project(x, cache.dtype());
  cache.assign(pad(added, {{0, 0}, {0, 0}, {0, 0}, {0, cache.dim(3) - added.dim(3)}, {0, 0}}));
  return attend(x, queries, added, {.causal = true});
}

Tensor GptBlock::step(const Tensor& x, Tensor& cache, const Tensor& length) {
  const auto [query, added] = project(x, cache.dtype());
  cache.assign(index_copy(cache, 3, length, added));
  return attend(x, query, cache, {.key_lengths = expand(length + 1, {x.dim(0)})});
}

GptBlock::Projected GptBlock::project(const Tensor& x, DType cached) {
  const int64_t width = x.dim(2);
  const Tensor all = c_attn_(ln_1_(x));  // (B, T, 3 C): queries, keys, values
  const auto heads = [&](int64_t first, int64_t parts) {
    const Tensor part = slice(all, -1, {.start = first * width, .stop = (first + parts) * width});
    return permute(reshape(part, {x.dim(0), x.dim(1), parts, heads_, width / heads_}), {0, 2, 3, 1, 4});
  };
  return {cast(squeeze(heads(0, 1), 1), cached), cast(heads(1, 2), cached)};
}

Tensor GptBlock::attend(const Tensor& x, const Tensor& queries, const Tensor& keys_and_values,
                        const AttentionOptions& how) {
  const auto part = [&](int64_t i) { return squeeze(slice(keys_and_values, 1, {.start = i, .stop = i + 1}), 1); };
  return finish(x, attn_proj_(join_heads(scaled_dot_product_attention(queries, part(0), part(1), how))));
}

Tensor GptBlock::finish(const Tensor& x, const Tensor& attended) {
  const Tensor middle = x + heddle::dropout(attended, dropout_, training(), generator_);
  return middle + heddle::dropout(mlp(ln_2_(middle)), dropout_, training(), generator_);
}

Gpt::Gpt(const GptOptions& o, const ParameterOptions& p)
    : Module("Gpt"), options_(checked(o)), generator_(p.generator), ln_f_(o.width, {.device = p.device}) {
  wte_ = embedding_table(o.vocabulary, o.width, 0.02, p);
  wpe_ = embedding_table(o.context, o.width, 0.01, p);
  add("wte", table(wte_));
  add("wpe", table(wpe_));
  Parts h("Blocks");
  for (int64_t i = 0; i < o.layers; ++i) h.add(std::to_string(i), blocks_.emplace_back(o, p));
  add("h", h);
  add("ln_f", ln_f_);
}

void Gpt::check_tokens(const Tensor& tokens) const {
  if (tokens.rank() == 2 && tokens.dim(1) <= options_.context) return;
  throw ShapeError(fmt::format("[Gpt] tokens are {}; expected (batch, length) with a length of at most {}",
                               tokens.shape().str(), options_.context));
}

Tensor Gpt::embed(const Tensor& tokens, const Tensor& positions) const {
  const Tensor x = embedding(wte_, tokens) + positions;
  return cast(x, promote(x.dtype(),
                         DType::f32));  // the sums of the blocks keep their digits where weights are stored in 16 bits
}

Tensor Gpt::first_positions(const Tensor& tokens) const { return slice(wpe_, 0, {.start = 0, .stop = tokens.dim(1)}); }

Tensor Gpt::forward(const Tensor& tokens) {
  check_tokens(tokens);
  Tensor x = heddle::dropout(embed(tokens, first_positions(tokens)), options_.dropout, training(), generator_);
  for (GptBlock& block : blocks_)
    x = options_.checkpoint || options_.offload ? checkpoint(CheckpointOptions{.offload = options_.offload}, block, x)
                                                : block(x);
  return matmul(ln_f_(x), transpose(wte_));
}

KvCache Gpt::make_cache(int64_t batch) const {
  const Shape shape =
      parameter_shape("Gpt", {batch, 2, options_.heads, options_.context, options_.width / options_.heads});
  DeviceContext* device = &wte_.device();
  KvCache cache{{}, zeros({1}, DType::i32, device)};
  for (int64_t i = 0; i < options_.layers; ++i) cache.layers.push_back(zeros(shape, wte_.dtype(), device));
  return cache;
}

Tensor Gpt::read(const Tensor& tokens, KvCache& cache) {
  check_tokens(tokens);
  const NoGradScope no_grad;
  Tensor x = embed(tokens, first_positions(tokens));
  for (size_t i = 0; i < blocks_.size(); ++i) x = blocks_[i].read(x, cache.layers[i]);
  cache.length.assign(full(cache.length.shape(), static_cast<double>(tokens.dim(1)), DType::i32, &x.device()));
  return logits_of_last(x);
}

Tensor Gpt::logits_of_last(const Tensor& x) {
  const Tensor last = squeeze(slice(x, 1, {.start = x.dim(1) - 1, .stop = x.dim(1)}), 1);
  return matmul(ln_f_(last), transpose(wte_));
}

Tensor Gpt::step(const Tensor& tokens, KvCache& cache) {
  const NoGradScope no_grad;
  const Tensor& length = cache.length;
  Tensor x = unsqueeze(embed(tokens, embedding(wpe_, length)), 1);  // (B, 1, C)
  for (size_t i = 0; i < blocks_.size(); ++i) x = blocks_[i].step(x, cache.layers[i], length);
  cache.length.assign(length + 1);
  return logits_of_last(x);
}

}  // namespace heddle::nn
