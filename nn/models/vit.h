// Vit: the vision transformer.
//
// Purpose: images (N, channels, size, size) -> logits (N, classes). The image is cut into patches, each a token; a
// class token in front of them reads the answer out. Names are torchvision's: conv_proj, class_token,
// encoder.pos_embedding, encoder.layers.encoder_layer_0.self_attention.in_proj_weight, ..., heads.head. Dosovitskiy et
// al. 2020, "An image is worth 16x16 words". Invariants: modules are handles (nn/module.h). Errors: ValueError for
// sizes, ShapeError for images of another size. Thread safety: none.
#pragma once

#include <vector>

#include "heddle/nn/conv.h"
#include "heddle/nn/layers.h"
#include "heddle/nn/norm.h"
#include "heddle/nn/parameter_options.h"

namespace heddle::nn {

struct VitOptions {
  int64_t size = 224, patch = 16;
  int64_t channels = 3;
  int64_t layers = 12, heads = 12;
  int64_t width = 768, mlp_width = 3072;
  int64_t classes = 1000;
  double dropout = 0;
};
VitOptions vit_b16(int64_t classes = 1000);  // 86,567,656 parameters

// x + attention(ln_1(x)), then + mlp(ln_2(.)).
class VitBlock : public Module {
 public:
  VitBlock(const VitOptions& options, const ParameterOptions& parameters);
  Tensor forward(const Tensor& x) override;  // (N, T, C) -> (N, T, C)

 private:
  int64_t heads_;
  double dropout_;
  Generator* generator_;
  LayerNorm ln_1_, ln_2_;
  Linear in_proj_, out_proj_;
  Sequential mlp_;
};

class Vit : public Module {
 public:
  explicit Vit(const VitOptions& options, const ParameterOptions& parameters = {});
  Tensor forward(const Tensor& images) override;

 private:
  VitOptions options_;
  Generator* generator_;
  Conv2d conv_proj_;
  Tensor class_token_, positions_;  // (1, 1, C), (1, T, C)
  std::vector<VitBlock> blocks_;
  LayerNorm ln_;
  Linear head_;
};

}  // namespace heddle::nn
