// Training steps of whole models on random data: what `heddle plan`, `heddle dump`, `heddle profile step`, `heddle bench step` and tests look at.
//
// Purpose: one text names model and sizes: mlp:BATCH, cnn:BATCH, gpt:BATCHxLENGTHxLAYERSxWIDTH, gpt-checkpoint:... (each block computed again
// for its gradient), and mnist-mlp[:BATCH], the network of `heddle train mnist-mlp` (the same as mlp; 32 images unless said otherwise). Thread safety: none.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "nn/nn.h"

namespace heddle::bench {

inline constexpr std::string_view training_step_form = "mnist-mlp[:BATCH], mlp:BATCH, cnn:BATCH, gpt:BATCHxLENGTHxLAYERSxWIDTH or gpt-checkpoint:BATCHxLENGTHxLAYERSxWIDTH, gpt-offload:...";

struct TrainingStep {
  std::shared_ptr<nn::Module> model;
  std::shared_ptr<nn::Optimizer> optimizer;
  std::function<Tensor()> loss;  // records the forward pass

  // Records forward, backward and update; returns the loss.
  Tensor record() const;
};

// ValueError for a text of another form. Weights and data are the same on every device.
TrainingStep make_training_step(const std::string& text, DeviceContext& device);

}  // namespace heddle::bench
