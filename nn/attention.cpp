#include "heddle/nn/attention.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "heddle/core/base/error.h"
#include "heddle/core/device/context.h"
#include "heddle/core/graph/node.h"
#include "heddle/nn/models/parts.h"
#include "heddle/nn/sizes.h"

namespace heddle::nn {
namespace {

constexpr const char* who = "MultiheadAttention";
constexpr double hidden = -std::numeric_limits<double>::infinity();

Linear make_out_proj(int64_t width, const MultiheadAttentionOptions& o) {
  Linear layer(width, width, {.bias = o.bias, .device = o.device, .generator = o.generator});
  if (o.bias) init::zeros(layer.bias);
  return layer;
}

void check_input(const char* what, const Tensor& x, int64_t width) {
  if (x.rank() != 3 || x.dim(2) != width)
    throw ShapeError(fmt::format("[{}] {} are {}; expected (batch, length, {})", who, what, x.shape().str(), width));
}

void check_mask(const char* what, const Tensor& mask) {
  if (mask.dtype() != DType::boolean && !is_float(mask.dtype()))
    throw DTypeError(fmt::format("[{}] {} is {}; expected bool (true: hidden) or a floating dtype", who, what,
                                 name_of(mask.dtype())));
}

// What is added to the scores.
Tensor added(const Tensor& mask) {
  return mask.dtype() == DType::boolean ? where(mask, hidden, zeros(mask.shape(), DType::f32, &mask.device())) : mask;
}

// (N, T, heads * size) to (N, heads, T, size).
Tensor split(const Tensor& x, int64_t heads) {
  return transpose(reshape(x, {x.dim(0), x.dim(1), heads, x.dim(2) / heads}), 1, 2);
}

// Part i of the three that lie below each other.
Tensor third(const Tensor& joined, int64_t i) {
  if (!joined.defined()) return {};
  const int64_t rows = joined.dim(0) / 3;
  return slice(joined, 0, {i * rows, (i + 1) * rows});
}

}  // namespace

MultiheadAttention::MultiheadAttention(int64_t embed_dim, int64_t num_heads, const MultiheadAttentionOptions& o)
    : Module(who),
      out_proj(make_out_proj(checked_size(who, "embed_dim", embed_dim), o)),
      embed_dim_(embed_dim),
      num_heads_(checked_size(who, "num_heads", num_heads)),
      dropout_(o.dropout),
      generator_(o.generator) {
  if (embed_dim % num_heads != 0)
    throw ValueError(fmt::format("[{}] {} heads do not divide embed_dim {}", who, num_heads, embed_dim));
  if (!(o.dropout >= 0 && o.dropout < 1))
    throw ValueError(fmt::format("[{}] dropout is {}; it must be in [0, 1)", who, o.dropout));
  const int64_t kdim = o.kdim == 0 ? embed_dim : checked_size(who, "kdim", o.kdim);
  const int64_t vdim = o.vdim == 0 ? embed_dim : checked_size(who, "vdim", o.vdim);
  const auto weight = [&](const char* name, int64_t rows, int64_t columns) {
    Tensor value = heddle::zeros(parameter_shape(who, {rows, columns}), DType::f32, o.device);
    init::xavier_uniform(value, 1, o.generator);
    return add_parameter(name, value);
  };
  if (kdim == embed_dim && vdim == embed_dim) {
    in_proj_weight = weight("in_proj_weight", 3 * embed_dim, embed_dim);
  } else {
    q_proj_weight = weight("q_proj_weight", embed_dim, embed_dim);
    k_proj_weight = weight("k_proj_weight", embed_dim, kdim);
    v_proj_weight = weight("v_proj_weight", embed_dim, vdim);
  }
  if (o.bias) in_proj_bias = add_parameter("in_proj_bias", heddle::zeros(Shape{3 * embed_dim}, DType::f32, o.device));
  add("out_proj", out_proj);
}

MultiheadAttention::Projected MultiheadAttention::project(const Tensor& q, const Tensor& k, const Tensor& v) const {
  const bool joined = in_proj_weight.defined();
  check_input("queries", q, embed_dim_);
  check_input("keys", k, joined ? embed_dim_ : k_proj_weight.dim(1));
  check_input("values", v, joined ? embed_dim_ : v_proj_weight.dim(1));
  if (joined && q.node() == k.node() && q.node() == v.node()) {  // one product
    const Heads heads = split_heads(linear(q, in_proj_weight, in_proj_bias), num_heads_);
    return {heads.queries, heads.keys, heads.values};
  }
  const Tensor* own[] = {&q_proj_weight, &k_proj_weight, &v_proj_weight};
  const auto part = [&](const Tensor& x, int64_t i) {
    return split(linear(x, joined ? third(in_proj_weight, i) : *own[i], third(in_proj_bias, i)), num_heads_);
  };
  return {part(q, 0), part(k, 1), part(v, 2)};
}

AttentionOptions MultiheadAttention::masked(const Projected& heads, const AttentionMasks& masks) const {
  const int64_t batch = heads.q.dim(0), queries = heads.q.dim(2), keys = heads.k.dim(2);
  AttentionOptions how;
  if (masks.is_causal && queries != keys) {
    throw ShapeError(fmt::format("[{}] is_causal needs as many keys as queries, not {} and {}; give an attn_mask", who,
                                 keys, queries));
  }
  how.causal = masks.is_causal;
  if (const Tensor& mask = masks.attn_mask; mask.defined()) {
    check_mask("attn_mask", mask);
    const bool each = mask.shape() == Shape{batch * num_heads_, queries, keys};
    if (!each && mask.shape() != Shape{queries, keys}) {
      throw ShapeError(fmt::format("[{}] attn_mask is {}; expected (T, S) ({}, {}) or (N * heads, T, S) with {}", who,
                                   mask.shape().str(), queries, keys, batch * num_heads_));
    }
    how.bias = added(each ? reshape(mask, {batch, num_heads_, queries, keys}) : mask);
  }
  if (const Tensor& mask = masks.key_padding_mask; mask.defined()) {
    check_mask("key_padding_mask", mask);
    if (mask.shape() != Shape{batch, keys}) {
      throw ShapeError(
          fmt::format("[{}] key_padding_mask is {}; expected (N, S) ({}, {})", who, mask.shape().str(), batch, keys));
    }
    if (mask.dtype() == DType::boolean) {
      how.key_mask = !mask;
    } else {
      const Tensor bias = reshape(mask, {batch, 1, 1, keys});
      how.bias = how.bias.defined() ? how.bias + bias : bias;
    }
  }
  return how;
}

Tensor MultiheadAttention::attend(const Projected& heads, const AttentionOptions& masks) {
  AttentionOptions how = masks;
  how.dropout = training() ? dropout_ : 0;
  how.generator = generator_;
  return out_proj(join_heads(scaled_dot_product_attention(heads.q, heads.k, heads.v, how)));
}

Tensor MultiheadAttention::run(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionMasks& masks) {
  const Projected heads = project(q, k, v);
  return attend(heads, masked(heads, masks));
}

MultiheadAttention::Result MultiheadAttention::run_with_weights(const Tensor& q, const Tensor& k, const Tensor& v,
                                                                const AttentionMasks& masks) {
  const Projected heads = project(q, k, v);
  const AttentionOptions how = masked(heads, masks);
  const double scale = 1 / std::sqrt(static_cast<double>(embed_dim_ / num_heads_));
  Tensor scores = matmul(heads.q * scale, transpose(heads.k));  // (N, heads, T, S)
  if (how.bias.defined()) scores = scores + how.bias;
  if (how.key_mask.defined())
    scores = where(reshape(how.key_mask, {scores.dim(0), 1, 1, scores.dim(3)}), scores, hidden);
  if (how.causal) {
    const Tensor number = arange(0, static_cast<double>(scores.dim(3)), 1, DType::i32, &scores.device());
    scores = where(unsqueeze(number, 1) < number, hidden, scores);
  }
  return {attend(heads, how), mean(softmax(scores), {1})};
}

}  // namespace heddle::nn
