#include "heddle/nn/models/llama_block.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "heddle/core/device/context.h"
#include "heddle/core/functions/nn/norms.h"
#include "heddle/nn/models/parts.h"
#include "heddle/nn/models/rotary.h"

namespace heddle::nn {
namespace {

Projection projection(const WeightSource& weights, const std::string& name, int64_t out, int64_t in,
                      bool with_bias = false) {
  const Shape shape{out, in};
  return Projection(weights(name + ".weight", shape), shape,
                    with_bias ? weights(name + ".bias", {out}).values : Tensor());
}

Tensor first_positions(const Tensor& x) { return arange(0, static_cast<double>(x.dim(1)), 1, DType::i32, &x.device()); }

// Keys and values (B, key_heads, T, size) -> (B, 2, key_heads, T, size).
Tensor joined(const Tensor& keys, const Tensor& values, DType cached) { return cast(stack({keys, values}, 1), cached); }

// (T, keys): -infinity where a query at a position does not see a key: one that left its window (of all there are: 0),
// or, `later`, one behind it.
Tensor hidden_keys(const Tensor& positions, int64_t keys, int64_t window, bool later) {
  const Tensor key = arange(0, static_cast<double>(keys), 1, DType::i32, &positions.device());
  const Tensor query = reshape(positions, {positions.dim(0), 1});
  Tensor hidden = window > 0 ? key <= query - window : key > query;
  if (window > 0 && later) hidden = hidden || key > query;
  return where(hidden, -std::numeric_limits<double>::infinity(), zeros_like(cast(key, DType::f32)));
}

// Attention whose scores x are cap tanh(x / cap): the fused row has none. Queries that share a key head stand one below
// the other in its products.
Tensor capped_attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& hidden, double scale,
                        double cap) {
  const Shape stacked{q.dim(0), k.dim(1), q.dim(1) / k.dim(1) * q.dim(2), q.dim(3)};
  const Shape scores{q.dim(0), q.dim(1), q.dim(2), k.dim(2)};
  const Tensor products = matmul(reshape(cast(q, DType::f32), stacked), transpose(cast(k, DType::f32)));
  const Tensor capped = tanh(reshape(products, scores) * (scale / cap)) * cap;
  const Tensor weights = softmax(capped + hidden, -1);
  const Tensor mixed = matmul(reshape(weights, stacked.with(3, k.dim(2))), cast(v, DType::f32));
  return reshape(mixed, Shape{q.dim(0), q.dim(1), q.dim(2), v.dim(3)});
}

}  // namespace

LlamaNorm::LlamaNorm(const LlamaOptions& o, const WeightSource& weights, const std::string& name, int64_t size)
    : Module("RMSNorm"), eps_(o.eps), around_one_(o.norm_around_one) {
  const Weight given = weights(name + ".weight", {size});
  if (given.packed || given.values.shape() != Shape{size})
    throw ShapeError(fmt::format("[Llama] {} is {}, expected ({})", name, given.values.shape().str(), size));
  weight_ = add_parameter("weight", cast(given.values, DType::f32));
}

Tensor LlamaNorm::forward(const Tensor& x) { return rms_norm(x, around_one_ ? weight_ + 1 : weight_, eps_); }

LlamaBlock::LlamaBlock(const LlamaOptions& o, const WeightSource& weights, const std::string& path, int64_t layer)
    : Module("LlamaBlock"),
      options_(o),
      window_(o.window_of(layer)),
      before_attention_(o, weights, path + "input_layernorm", o.width),
      before_mlp_(o, weights, path + (o.norms_behind ? "pre_feedforward_layernorm" : "post_attention_layernorm"),
                  o.width),
      q_(projection(weights, path + "self_attn.q_proj", o.heads * o.size_of_head(), o.width, o.qkv_bias)),
      k_(projection(weights, path + "self_attn.k_proj", o.key_heads * o.size_of_head(), o.width, o.qkv_bias)),
      v_(projection(weights, path + "self_attn.v_proj", o.key_heads * o.size_of_head(), o.width, o.qkv_bias)),
      o_(projection(weights, path + "self_attn.o_proj", o.width, o.heads * o.size_of_head())),
      gate_(projection(weights, path + "mlp.gate_proj", o.hidden, o.width)),
      up_(projection(weights, path + "mlp.up_proj", o.hidden, o.width)),
      down_(projection(weights, path + "mlp.down_proj", o.width, o.hidden)) {
  if (o.norms_behind) {
    behind_attention_.emplace(o, weights, path + "post_attention_layernorm", o.width);
    behind_mlp_.emplace(o, weights, path + "post_feedforward_layernorm", o.width);
  }
  if (o.head_norms) {
    query_norm_.emplace(o, weights, path + "self_attn.q_norm", o.size_of_head());
    key_norm_.emplace(o, weights, path + "self_attn.k_norm", o.size_of_head());
  }
  turn_as(o);
  name_parts();
}

void LlamaBlock::turn_as(const LlamaOptions& o) {
  const bool of_window = window_ > 0 && o.window_rope_base > 0;
  rope_base_ = of_window ? o.window_rope_base : o.rope_base;
  if (of_window || o.rope_factors.empty()) return;
  const std::vector<float> factors(o.rope_factors.begin(), o.rope_factors.end());
  rope_factors_ = Tensor::from_vector(factors, {o.size_of_rope() / 2}, &q_.weight.device());
}

void LlamaBlock::name_parts() {
  Parts attention("Attention"), mlp("Mlp");
  attention.add("q_proj", q_);
  attention.add("k_proj", k_);
  attention.add("v_proj", v_);
  attention.add("o_proj", o_);
  if (query_norm_) attention.add("q_norm", *query_norm_);
  if (key_norm_) attention.add("k_norm", *key_norm_);
  mlp.add("gate_proj", gate_);
  mlp.add("up_proj", up_);
  mlp.add("down_proj", down_);
  add("input_layernorm", before_attention_);
  add("self_attn", attention);
  add("post_attention_layernorm", behind_attention_ ? *behind_attention_ : before_mlp_);
  if (behind_mlp_) add("pre_feedforward_layernorm", before_mlp_);
  add("mlp", mlp);
  if (behind_mlp_) add("post_feedforward_layernorm", *behind_mlp_);
}

LlamaBlock::Projected LlamaBlock::project(const Tensor& x, const Tensor& positions) {
  const Tensor in = before_attention_(x);
  const RotaryAngles angles = rotary_angles(positions, options_.size_of_rope(), rope_base_, rope_factors_);
  const auto heads = [&](Projection& by, int64_t count) {
    return reshape(by(in), {x.dim(0), x.dim(1), count, options_.size_of_head()});
  };
  const auto turned = [&](const Tensor& y, std::optional<LlamaNorm>& norm) {
    return transpose(rotated(norm ? (*norm)(y) : y, angles), 1, 2);
  };
  return {turned(heads(q_, options_.heads), query_norm_), turned(heads(k_, options_.key_heads), key_norm_),
          transpose(heads(v_, options_.key_heads), 1, 2)};
}

Tensor LlamaBlock::attend(const Projected& heads, const Tensor& positions, const Tensor& lengths,
                          const Tensor& hidden) const {
  const auto& [queries, keys, values] = heads;
  const int64_t count = keys.dim(2);
  const int64_t window = window_ < count ? window_ : 0;
  const double scale =
      options_.score_scale > 0 ? options_.score_scale : 1 / std::sqrt(static_cast<double>(options_.size_of_head()));
  const auto added = [&](const Tensor& own) { return hidden.defined() ? own + hidden : own; };
  if (options_.score_cap > 0)
    return capped_attention(queries, keys, values, added(hidden_keys(positions, count, window, true)), scale,
                            options_.score_cap);
  AttentionOptions how{.key_lengths = lengths, .causal = !lengths.defined()};
  how.bias = window > 0 ? added(hidden_keys(positions, count, window, false)) : hidden;
  if (options_.score_scale > 0) how.scale = scale;
  return scaled_dot_product_attention(queries, keys, values, how);
}

Tensor LlamaBlock::forward(const Tensor& x) { return within(x, {}); }

Tensor LlamaBlock::within(const Tensor& x, const Tensor& hidden) {
  const Tensor positions = first_positions(x);
  return finish(x, attend(project(x, positions), positions, {}, hidden));
}

Tensor LlamaBlock::read(const Tensor& x, Tensor& cache) {
  const Tensor positions = first_positions(x);
  const auto [queries, keys, values] = project(x, positions);
  const Tensor added = joined(keys, values, cache.dtype());
  cache.assign(pad(added, {{0, 0}, {0, 0}, {0, 0}, {0, cache.dim(3) - added.dim(3)}, {0, 0}}));
  return finish(x, attend({cast(queries, cache.dtype()), select(added, 1, 0), select(added, 1, 1)}, positions));
}

Tensor LlamaBlock::step(const Tensor& x, Tensor& cache, const Tensor& length) {
  const auto [query, key, value] = project(x, length);
  cache.assign(index_copy(cache, 3, length, joined(key, value, cache.dtype())));
  return finish(x, attend({cast(query, cache.dtype()), select(cache, 1, 0), select(cache, 1, 1)}, length,
                          expand(length + 1, {x.dim(0)})));
}

Tensor LlamaBlock::finish(const Tensor& x, const Tensor& attended) {
  const auto behind = [](std::optional<LlamaNorm>& norm, const Tensor& y) { return norm ? (*norm)(y) : y; };
  const Tensor middle = x + behind(behind_attention_, o_(join_heads(attended)));
  const Tensor in = before_mlp_(middle);
  const Tensor gate = gate_(in);
  return middle + behind(behind_mlp_, down_((options_.gelu ? gelu_tanh(gate) : silu(gate)) * up_(in)));
}

}  // namespace heddle::nn
