#include "heddle/nn/transformer.h"

#include <fmt/format.h>

#include "heddle/core/device/context.h"
#include "heddle/nn/sizes.h"

namespace heddle::nn {
namespace {

LayerNorm make_norm(int64_t width, const TransformerOptions& o) {
  return LayerNorm(width, {.eps = o.layer_norm_eps, .bias = o.bias, .device = o.device});
}

Linear make_linear(int64_t in, int64_t out, const TransformerOptions& o) {
  return Linear(in, out, {.bias = o.bias, .device = o.device, .generator = o.generator});
}

template <class Layer>
ModuleList make_layers(const char* who, int64_t count, int64_t d_model, int64_t nhead, const TransformerOptions& o) {
  checked_size(who, "num_layers", count, most_layers);
  ModuleList layers;
  for (int64_t i = 0; i < count; ++i) layers.append(Layer(d_model, nhead, o));
  return layers;
}

}  // namespace

namespace detail {

TransformerLayer::TransformerLayer(const char* kind, int64_t d_model, int64_t nhead, int norms,
                                   const TransformerOptions& o)
    : Module(kind), activation_(o.activation), norm_first_(o.norm_first), dropout_(o.dropout), generator_(o.generator) {
  check_sizes(kind, {{"d_model", d_model}, {"nhead", nhead}, {"dim_feedforward", o.dim_feedforward}});
  const auto attention = [&](const char* name) {
    attentions_.push_back(
        add(name,
            MultiheadAttention(d_model, nhead,
                               {.bias = o.bias, .dropout = o.dropout, .device = o.device, .generator = o.generator})));
  };
  attention("self_attn");
  if (norms == 3) attention("multihead_attn");
  linear1_ = std::make_shared<Linear>(add("linear1", make_linear(d_model, o.dim_feedforward, o)));
  linear2_ = std::make_shared<Linear>(add("linear2", make_linear(o.dim_feedforward, d_model, o)));
  for (int i = 1; i <= norms; ++i) norms_.push_back(add(fmt::format("norm{}", i), make_norm(d_model, o)));
}

Tensor TransformerLayer::drop(const Tensor& x) { return dropout(x, dropout_, training(), generator_); }

Tensor TransformerLayer::feed_forward(const Tensor& x) {
  return drop((*linear2_)(drop(activate((*linear1_)(x), activation_))));
}

}  // namespace detail

TransformerEncoderLayer::TransformerEncoderLayer(int64_t d_model, int64_t nhead, const TransformerOptions& o)
    : TransformerLayer("TransformerEncoderLayer", d_model, nhead, 2, o) {}

Tensor TransformerEncoderLayer::run(const Tensor& x, const AttentionMasks& masks) {
  const Tensor mixed = residual(x, 0, [&](const Tensor& in) { return drop(attentions_[0].run(in, in, in, masks)); });
  return residual(mixed, 1, [&](const Tensor& in) { return feed_forward(in); });
}

TransformerDecoderLayer::TransformerDecoderLayer(int64_t d_model, int64_t nhead, const TransformerOptions& o)
    : TransformerLayer("TransformerDecoderLayer", d_model, nhead, 3, o) {}

Tensor TransformerDecoderLayer::run(const Tensor& x, const Tensor& memory, const AttentionMasks& masks,
                                    const AttentionMasks& memory_masks) {
  const Tensor mixed = residual(x, 0, [&](const Tensor& in) { return drop(attentions_[0].run(in, in, in, masks)); });
  const Tensor informed =
      residual(mixed, 1, [&](const Tensor& in) { return drop(attentions_[1].run(in, memory, memory, memory_masks)); });
  return residual(informed, 2, [&](const Tensor& in) { return feed_forward(in); });
}

TransformerEncoder::TransformerEncoder(int64_t num_layers, int64_t d_model, int64_t nhead, const TransformerOptions& o)
    : Module("TransformerEncoder"),
      layers(add("layers", make_layers<TransformerEncoderLayer>("TransformerEncoder", num_layers, d_model, nhead, o))) {
  if (o.final_norm) norm_ = std::make_shared<LayerNorm>(add("norm", make_norm(d_model, o)));
}

Tensor TransformerEncoder::run(const Tensor& x, const AttentionMasks& masks) {
  Tensor y = x;
  for (Module& layer : layers) y = static_cast<TransformerEncoderLayer&>(layer).run(y, masks);
  return norm_ ? (*norm_)(y) : y;
}

TransformerDecoder::TransformerDecoder(int64_t num_layers, int64_t d_model, int64_t nhead, const TransformerOptions& o)
    : Module("TransformerDecoder"),
      layers(add("layers", make_layers<TransformerDecoderLayer>("TransformerDecoder", num_layers, d_model, nhead, o))) {
  if (o.final_norm) norm_ = std::make_shared<LayerNorm>(add("norm", make_norm(d_model, o)));
}

Tensor TransformerDecoder::run(const Tensor& x, const Tensor& memory, const AttentionMasks& masks,
                               const AttentionMasks& memory_masks) {
  Tensor y = x;
  for (Module& layer : layers) y = static_cast<TransformerDecoderLayer&>(layer).run(y, memory, masks, memory_masks);
  return norm_ ? (*norm_)(y) : y;
}

}  // namespace heddle::nn
