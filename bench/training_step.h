// Training steps of whole models on random data: what `heddle plan`, `heddle dump`, `heddle profile step`, `heddle bench step` and tests look at.
//
// Purpose: one text names model and sizes: mlp:BATCH, cnn:BATCH, gpt:BATCHxLENGTHxLAYERSxWIDTH, gpt-checkpoint:... (each block computed again
// for its gradient), mnist-mlp[:BATCH], the network of `heddle train mnist-mlp` (the same as mlp; 32 images unless said otherwise), and char-gpt[:BATCH],
// nanoGPT's configuration for a CPU: 65 characters, 64 of them in context, 4 layers, 4 heads, width 128, gradients clipped to norm 1 (12 texts).
// "/PARTS" behind it accumulates the gradient of that many parts of the batch: mlp:32/4 is four parts of 8.
// Thread safety: none.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "nn/nn.h"

namespace heddle::bench {

inline constexpr std::string_view training_step_form = "mnist-mlp[:BATCH], mlp:BATCH, cnn:BATCH, char-gpt[:BATCH], gpt:BATCHxLENGTHxLAYERSxWIDTH or gpt-checkpoint:BATCHxLENGTHxLAYERSxWIDTH, gpt-offload:...; /PARTS behind it accumulates";

struct TrainingStep {
  std::shared_ptr<nn::Module> model;
  std::shared_ptr<nn::Optimizer> optimizer;
  Tensor x, y;
  int64_t parts = 1;
  std::function<Tensor(const Tensor& x, const Tensor& y)> loss;  // records the forward pass

  // Records forward, backward and update; returns the loss.
  Tensor record() const;
};

// ValueError for a text of another form. Weights and data are the same on every device.
TrainingStep make_training_step(const std::string& text, DeviceContext& device);

}  // namespace heddle::bench
