#include "heddle/nn/models/llama.h"

#include <fmt/format.h>

#include <cmath>

#include "heddle/core/device/context.h"
#include "heddle/nn/init.h"
#include "heddle/nn/models/parts.h"
#include "heddle/nn/sizes.h"

namespace heddle::nn {
namespace {

const LlamaOptions& checked(const LlamaOptions& o) {
  check_sizes("Llama", {{"vocabulary", o.vocabulary},
                        {"context", o.context},
                        {"heads", o.heads},
                        {"key_heads", o.key_heads},
                        {"width", o.width},
                        {"hidden", o.hidden}});
  checked_size("Llama", "layers", o.layers, most_layers);
  if (o.width % o.heads != 0)
    throw ValueError(fmt::format("[Llama] {} heads do not divide the width {}", o.heads, o.width));
  if (o.heads % o.key_heads != 0)
    throw ValueError(fmt::format("[Llama] {} heads of keys do not divide {} heads", o.key_heads, o.heads));
  if (o.width / o.heads % 2 != 0)
    throw ValueError(fmt::format("[Llama] heads have {} elements; rotary positions turn pairs", o.width / o.heads));
  if (!(o.eps >= 0 && std::isfinite(o.eps)))
    throw ValueError(fmt::format("[Llama] eps is {}; it must not be negative", o.eps));
  if (!(o.rope_base > 0 && std::isfinite(o.rope_base)))
    throw ValueError(fmt::format("[Llama] rope_base is {}; it must be above 0", o.rope_base));
  return o;
}

WeightSource drawn(const ParameterOptions& p) {
  return [p](const std::string&, const Shape& shape) {
    Tensor values = heddle::zeros(parameter_shape("Llama", shape.dims()), DType::f32, p.device);
    if (shape.rank() == 1) return Weight{heddle::ones(shape, DType::f32, p.device), {}};
    init::normal(values, 0, 0.02, p.generator);
    return Weight{values, {}};
  };
}

Projection projection(const WeightSource& weights, const std::string& name, int64_t out, int64_t in) {
  const Shape shape{out, in};
  return Projection(weights(name + ".weight", shape), shape);
}

RMSNorm norm(const WeightSource& weights, const std::string& name, const LlamaOptions& o, DeviceRef device) {
  RMSNorm made(o.width, {.eps = o.eps, .device = device});
  const Weight weight = weights(name + ".weight", {o.width});
  if (weight.packed || weight.values.shape() != made.weight.shape())
    throw ShapeError(
        fmt::format("[Llama] {} is {}, expected {}", name, weight.values.shape().str(), made.weight.shape().str()));
  made.weight.assign(cast(weight.values, DType::f32));
  return made;
}

Tensor first_positions(const Tensor& x) { return arange(0, static_cast<double>(x.dim(1)), 1, DType::i32, &x.device()); }

// Keys and values (B, key_heads, T, size) -> (B, 2, key_heads, T, size).
Tensor joined(const Tensor& keys, const Tensor& values, DType cached) { return cast(stack({keys, values}, 1), cached); }

}  // namespace

LlamaOptions smollm2_135m() {
  return {.vocabulary = 49152,
          .context = 8192,
          .layers = 30,
          .heads = 9,
          .key_heads = 3,
          .width = 576,
          .hidden = 1536,
          .rope_base = 100000,
          .tied = true};
}
LlamaOptions tiny_llama_1b() { return {}; }

RotaryAngles rotary_angles(const Tensor& positions, int64_t size, double base) {
  DeviceContext* device = &positions.device();
  const auto half = static_cast<double>(size / 2);
  // Frequency i is base^(-2 i / size).
  const Tensor frequencies = exp(arange(0, half, 1, DType::f32, device) * (-std::log(base) / half));
  const Tensor angles = reshape(cast(positions, DType::f32), {positions.dim(0), 1, 1, 1}) * frequencies;
  const Tensor signs = reshape(arange(-1, 2, 2, DType::f32, device), {2, 1});
  return {cos(angles), sin(angles) * signs};
}

Tensor rotated(const Tensor& heads, const RotaryAngles& angles) {
  const Tensor halves = reshape(heads, {heads.dim(0), heads.dim(1), heads.dim(2), 2, heads.dim(3) / 2});
  return reshape(halves * angles.cosines + flip(halves, {3}) * angles.sines, heads.shape());
}

LlamaBlock::LlamaBlock(const LlamaOptions& o, const WeightSource& weights, const std::string& path, DeviceRef device)
    : Module("LlamaBlock"),
      heads_(o.heads),
      key_heads_(o.key_heads),
      size_(o.width / o.heads),
      rope_base_(o.rope_base),
      input_layernorm_(norm(weights, path + "input_layernorm", o, device)),
      post_attention_layernorm_(norm(weights, path + "post_attention_layernorm", o, device)),
      q_(projection(weights, path + "self_attn.q_proj", o.width, o.width)),
      k_(projection(weights, path + "self_attn.k_proj", o.key_heads * size_, o.width)),
      v_(projection(weights, path + "self_attn.v_proj", o.key_heads * size_, o.width)),
      o_(projection(weights, path + "self_attn.o_proj", o.width, o.width)),
      gate_(projection(weights, path + "mlp.gate_proj", o.hidden, o.width)),
      up_(projection(weights, path + "mlp.up_proj", o.hidden, o.width)),
      down_(projection(weights, path + "mlp.down_proj", o.width, o.hidden)) {
  Parts attention("Attention"), mlp("Mlp");
  attention.add("q_proj", q_);
  attention.add("k_proj", k_);
  attention.add("v_proj", v_);
  attention.add("o_proj", o_);
  mlp.add("gate_proj", gate_);
  mlp.add("up_proj", up_);
  mlp.add("down_proj", down_);
  add("input_layernorm", input_layernorm_);
  add("self_attn", attention);
  add("post_attention_layernorm", post_attention_layernorm_);
  add("mlp", mlp);
}

LlamaBlock::Projected LlamaBlock::project(const Tensor& x, const Tensor& positions) {
  const Tensor in = input_layernorm_(x);
  const RotaryAngles angles = rotary_angles(positions, size_, rope_base_);
  const auto heads = [&](Projection& by, int64_t count) { return reshape(by(in), {x.dim(0), x.dim(1), count, size_}); };
  return {transpose(rotated(heads(q_, heads_), angles), 1, 2), transpose(rotated(heads(k_, key_heads_), angles), 1, 2),
          transpose(heads(v_, key_heads_), 1, 2)};
}

Tensor LlamaBlock::forward(const Tensor& x) {
  const auto [queries, keys, values] = project(x, first_positions(x));
  return finish(x, scaled_dot_product_attention(queries, keys, values, {.causal = true}));
}

Tensor LlamaBlock::read(const Tensor& x, Tensor& cache) {
  const auto [queries, keys, values] = project(x, first_positions(x));
  const Tensor added = joined(keys, values, cache.dtype());
  cache.assign(pad(added, {{0, 0}, {0, 0}, {0, 0}, {0, cache.dim(3) - added.dim(3)}, {0, 0}}));
  return finish(x, scaled_dot_product_attention(cast(queries, cache.dtype()), select(added, 1, 0), select(added, 1, 1),
                                                {.causal = true}));
}

Tensor LlamaBlock::step(const Tensor& x, Tensor& cache, const Tensor& length) {
  const auto [query, key, value] = project(x, length);
  cache.assign(index_copy(cache, 3, length, joined(key, value, cache.dtype())));
  return finish(x, scaled_dot_product_attention(cast(query, cache.dtype()), select(cache, 1, 0), select(cache, 1, 1),
                                                {.key_lengths = expand(length + 1, {x.dim(0)})}));
}

Tensor LlamaBlock::finish(const Tensor& x, const Tensor& attended) {
  const Tensor middle = x + o_(join_heads(attended));
  const Tensor in = post_attention_layernorm_(middle);
  return middle + down_(silu(gate_(in)) * up_(in));
}

Llama::Llama(const LlamaOptions& o, const ParameterOptions& p) : Llama(o, drawn(p), p.device) {}

Llama::Llama(const LlamaOptions& o, const WeightSource& weights, DeviceRef device)
    : Module("Llama"),
      options_(checked(o)),
      embed_tokens_(projection(weights, "model.embed_tokens", o.vocabulary, o.width)),
      norm_(norm(weights, "model.norm", o, device)) {
  Parts model("LlamaModel"), layers("Blocks");
  model.add("embed_tokens", embed_tokens_);
  for (int64_t i = 0; i < o.layers; ++i) {
    const std::string path = fmt::format("model.layers.{}.", i);
    layers.add(std::to_string(i), blocks_.emplace_back(o, weights, path, device));
  }
  model.add("layers", layers);
  model.add("norm", norm_);
  add("model", model);
  if (!o.tied) head_.push_back(add("lm_head", projection(weights, "lm_head", o.vocabulary, o.width)));
}

void Llama::check_tokens(const Tensor& tokens) const {
  if (tokens.rank() == 2 && tokens.dim(1) <= options_.context) return;
  throw ShapeError(fmt::format("[Llama] tokens are {}; expected (batch, length) with a length of at most {}",
                               tokens.shape().str(), options_.context));
}

// The sums of the blocks keep their digits where weights are stored in 16 bits.
Tensor Llama::embed(const Tensor& tokens) const {
  const Tensor x = embed_tokens_.rows(tokens);
  return cast(x, promote(x.dtype(), DType::f32));
}

Tensor Llama::logits(const Tensor& x) {
  const Tensor last = norm_(x);
  return head_.empty() ? embed_tokens_(last) : head_[0](last);
}

Tensor Llama::logits_of_last(const Tensor& x) { return logits(select(x, 1, -1)); }

Tensor Llama::features(const Tensor& tokens) {
  check_tokens(tokens);
  Tensor x = embed(tokens);
  for (LlamaBlock& block : blocks_) x = block(x);
  return norm_(x);
}

Tensor Llama::forward(const Tensor& tokens) {
  const Tensor last = features(tokens);
  return head_.empty() ? embed_tokens_(last) : head_[0](last);
}

KvCache Llama::make_cache(int64_t batch, int64_t context) const {
  const int64_t positions = context > 0 ? std::min(context, options_.context) : options_.context;
  const Shape shape =
      parameter_shape("Llama", {batch, 2, options_.key_heads, positions, options_.width / options_.heads});
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
