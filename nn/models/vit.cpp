#include "heddle/nn/models/vit.h"

#include <fmt/format.h>

#include <cmath>

#include "heddle/core/device/context.h"
#include "heddle/nn/models/parts.h"
#include "heddle/nn/sizes.h"

namespace heddle::nn {
namespace {

const VitOptions& checked(const VitOptions& o) {
  check_sizes("Vit", {{"size", o.size}, {"channels", o.channels}, {"width", o.width}, {"mlp_width", o.mlp_width}});
  checked_size("Vit", "classes", o.classes, most_size, 0);
  checked_size("Vit", "layers", o.layers, most_layers);
  if (o.patch < 1 || o.size < o.patch || o.size % o.patch != 0)
    throw ValueError(fmt::format("[Vit] patches of {} do not tile an image of {}", o.patch, o.size));
  if (o.heads < 1 || o.width < 1 || o.width % o.heads != 0)
    throw ValueError(fmt::format("[Vit] {} heads do not divide the width {}", o.heads, o.width));
  if (!(o.dropout >= 0 && o.dropout < 1))
    throw ValueError(fmt::format("[Vit] dropout is {}; it must be in [0, 1)", o.dropout));
  return o;
}

Linear linear(int64_t in, int64_t out, const ParameterOptions& p) {
  Linear layer(in, out, {.device = p.device, .generator = p.generator});
  init::xavier_uniform(layer.weight, 1, p.generator);
  init::zeros(layer.bias);
  return layer;
}

Conv2d make_patches(const VitOptions& o, const ParameterOptions& p) {
  Conv2d conv(o.channels, o.width, {o.patch}, {.stride = {o.patch}, .device = p.device, .generator = p.generator});
  init::normal(conv.weight, 0, std::sqrt(1 / static_cast<double>(init::fans_of(conv.weight.shape()).in)), p.generator);
  init::zeros(conv.bias);
  return conv;
}

Linear make_head(const VitOptions& o, const ParameterOptions& p) {
  Linear head(o.width, o.classes, {.device = p.device, .generator = p.generator});
  init::zeros(head.weight);
  init::zeros(head.bias);
  return head;
}

}  // namespace

VitOptions vit_b16(int64_t classes) { return {.classes = classes}; }

VitBlock::VitBlock(const VitOptions& o, const ParameterOptions& p)
    : Module("VitBlock"),
      heads_(o.heads),
      dropout_(o.dropout),
      generator_(p.generator),
      ln_1_(add("ln_1", LayerNorm(o.width, {.eps = 1e-6, .device = p.device}))),
      ln_2_(o.width, {.eps = 1e-6, .device = p.device}),
      in_proj_(linear(o.width, 3 * o.width, p)),
      out_proj_(linear(o.width, o.width, p)),
      mlp_(linear(o.width, o.mlp_width, p), GELU(), Dropout(o.dropout, {.generator = p.generator}),
           linear(o.mlp_width, o.width, p)) {
  Parts attention("SelfAttention");
  attention.add_parameter("in_proj_weight", in_proj_.weight);
  attention.add_parameter("in_proj_bias", in_proj_.bias);
  attention.add("out_proj", out_proj_);
  add("self_attention", attention);
  add("ln_2", ln_2_);
  add("mlp", mlp_);
}

Tensor VitBlock::forward(const Tensor& x) {
  const Tensor mixed = out_proj_(self_attention(in_proj_(ln_1_(x)), heads_, {}));
  const Tensor middle = x + heddle::dropout(mixed, dropout_, training(), generator_);
  return middle + heddle::dropout(mlp_(ln_2_(middle)), dropout_, training(), generator_);
}

Vit::Vit(const VitOptions& o, const ParameterOptions& p)
    : Module("Vit"),
      options_(checked(o)),
      generator_(p.generator),
      conv_proj_(make_patches(o, p)),
      ln_(o.width, {.eps = 1e-6, .device = p.device}),
      head_(make_head(o, p)) {
  const int64_t patches = (o.size / o.patch) * (o.size / o.patch);
  class_token_ = add_parameter("class_token", zeros({1, 1, o.width}, DType::f32, p.device));
  positions_ = zeros(parameter_shape("Vit", {1, patches + 1, o.width}), DType::f32, p.device);
  init::normal(positions_, 0, 0.02, p.generator);
  add("conv_proj", conv_proj_);
  Parts layers("Layers"), encoder("Encoder"), heads("Heads");
  for (int64_t i = 0; i < o.layers; ++i) layers.add(fmt::format("encoder_layer_{}", i), blocks_.emplace_back(o, p));
  positions_ = encoder.add_parameter("pos_embedding", positions_);
  encoder.add("layers", layers);
  encoder.add("ln", ln_);
  heads.add("head", head_);
  add("encoder", encoder);
  add("heads", heads);
}

Tensor Vit::forward(const Tensor& images) {
  const VitOptions& o = options_;
  if (images.rank() != 4 || images.dim(1) != o.channels || images.dim(2) != o.size || images.dim(3) != o.size) {
    throw ShapeError(
        fmt::format("[Vit] images are {}; expected (N, {}, {}, {})", images.shape().str(), o.channels, o.size, o.size));
  }
  const int64_t batch = images.dim(0);
  const Tensor patches = transpose(flatten(conv_proj_(images), 2), 1, 2);  // (N, patches, C)
  const Tensor tokens = concat({expand(class_token_, {batch, 1, o.width}), patches}, 1) + positions_;
  Tensor x = heddle::dropout(tokens, o.dropout, training(), generator_);
  for (VitBlock& block : blocks_) x = block(x);
  const Tensor answer = squeeze(slice(ln_(x), 1, {.start = 0, .stop = 1}), 1);  // (N, C)
  return head_(answer);
}

}  // namespace heddle::nn
