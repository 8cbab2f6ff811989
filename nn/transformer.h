// Transformer layers: encoder and decoder, and stacks of them.
//
//   nn::TransformerEncoder encoder(6, 512, 8, {.dim_feedforward = 1024, .norm_first = true});
//   const Tensor y = encoder.run(x, {.key_padding_mask = padding});
//
// Purpose: PyTorch's nn.TransformerEncoderLayer, nn.TransformerDecoderLayer, nn.TransformerEncoder and
// nn.TransformerDecoder with batch_first=True: (N, T, d_model) to the same shape. Parameters and their names are
// PyTorch's, so that its state loads. A block is attention(s) and two linear layers with an activation between them,
// each added to what it was given; norms stand behind the sum, or before the part (norm_first). Vaswani et al. 2017,
// "Attention is all you need"; norms first: Xiong et al. 2020, "On layer normalization in the transformer
// architecture". Invariants: modules are handles (nn/module.h); each layer of a stack has first values of its own,
// where PyTorch copies one layer. Errors: ValueError for sizes, ShapeError and DTypeError for inputs and masks. Thread
// safety: none.
#pragma once

#include <memory>
#include <vector>

#include "heddle/nn/activations.h"
#include "heddle/nn/attention.h"
#include "heddle/nn/containers.h"
#include "heddle/nn/layers.h"
#include "heddle/nn/norm.h"

namespace heddle::nn {

struct TransformerOptions {
  int64_t dim_feedforward = 2048;
  double dropout = 0.1;  // of the attention's weights, of the activation and of each part's result
  Activation activation = Activation::relu;
  double layer_norm_eps = 1e-5;
  bool norm_first = false;
  bool bias = true;         // of linear layers, attention and norms
  bool final_norm = false;  // of a stack: a norm ("norm") behind the last layer
  DeviceRef device = {};
  Generator* generator = nullptr;  // null: the process's
};

namespace detail {
// What encoder and decoder layers share: linear1, activation, linear2, with dropout behind the last two.
class TransformerLayer : public Module {
 protected:
  // norms: 2, or 3 of a layer that attends to a memory as well.
  TransformerLayer(const char* kind, int64_t d_model, int64_t nhead, int norms, const TransformerOptions& options);
  // norm and what it stands before or behind, added to x: x + part(norm(x)), or norm(x + part(x)).
  template <class Part>
  Tensor residual(const Tensor& x, size_t number, const Part& part) {
    LayerNorm& norm = norms_[number];
    return norm_first_ ? x + part(norm(x)) : norm(x + part(x));
  }
  Tensor drop(const Tensor& x);
  Tensor feed_forward(const Tensor& x);

  std::vector<MultiheadAttention> attentions_;  // self_attn; of a decoder multihead_attn

 private:
  Activation activation_;
  bool norm_first_;
  double dropout_;
  Generator* generator_;
  std::vector<LayerNorm> norms_;  // norm1, norm2, ...
  std::shared_ptr<Module> linear1_, linear2_;
};
}  // namespace detail

class TransformerEncoderLayer : public detail::TransformerLayer {
 public:
  TransformerEncoderLayer(int64_t d_model, int64_t nhead, const TransformerOptions& options = {});
  Tensor run(const Tensor& x, const AttentionMasks& masks = {});
  Tensor forward(const Tensor& x) override { return run(x); }
};

// Self-attention, attention to the encoder's result `memory` (N, S, d_model), feed-forward.
class TransformerDecoderLayer : public detail::TransformerLayer {
 public:
  TransformerDecoderLayer(int64_t d_model, int64_t nhead, const TransformerOptions& options = {});
  Tensor run(const Tensor& x, const Tensor& memory, const AttentionMasks& masks = {},
             const AttentionMasks& memory_masks = {});
};

// "layers.0", "layers.1", ...
class TransformerEncoder : public Module {
 public:
  TransformerEncoder(int64_t num_layers, int64_t d_model, int64_t nhead, const TransformerOptions& options = {});
  Tensor run(const Tensor& x, const AttentionMasks& masks = {});
  Tensor forward(const Tensor& x) override { return run(x); }

  ModuleList layers;

 private:
  std::shared_ptr<Module> norm_;  // none: null
};

class TransformerDecoder : public Module {
 public:
  TransformerDecoder(int64_t num_layers, int64_t d_model, int64_t nhead, const TransformerOptions& options = {});
  Tensor run(const Tensor& x, const Tensor& memory, const AttentionMasks& masks = {},
             const AttentionMasks& memory_masks = {});

  ModuleList layers;

 private:
  std::shared_ptr<Module> norm_;  // none: null
};

}  // namespace heddle::nn
