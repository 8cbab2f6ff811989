// Training steps of whole models on random data: what `heddle plan`, `heddle dump`, `heddle profile step`, `heddle
// bench step` and tests look at.
//
// Purpose: one text names model and sizes: mlp:BATCH, cnn:BATCH, gpt:BATCHxLENGTHxLAYERSxWIDTH, gpt-checkpoint:...
// (each block computed again for its gradient), resnet18:BATCHxWIDTH on 32x32 images, its first stage so wide, and what
// `heddle train` trains unless told otherwise, with the recipe's batch or another: mnist-mlp[:BATCH] (the same as mlp),
// mnist-cnn[:BATCH], vae[:BATCH], and of 65 characters, 64 of them in context, with gradients clipped to norm 1,
// char-lstm[:BATCH] and char-gpt[:BATCH], nanoGPT's configuration for a CPU.
// "/PARTS" behind it accumulates the gradient of that many parts of the batch: mlp:32/4 is four parts of 8.
// Thread safety: none.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "heddle/nn/nn.h"

namespace heddle::bench {

inline constexpr std::string_view training_step_form =
    "mnist-mlp[:BATCH], mnist-cnn[:BATCH], vae[:BATCH], char-lstm[:BATCH], char-gpt[:BATCH], mlp:BATCH, cnn:BATCH, "
    "resnet18:BATCHxWIDTH, gpt:BATCHxLENGTHxLAYERSxWIDTH or gpt-checkpoint:BATCHxLENGTHxLAYERSxWIDTH, gpt-offload:...; "
    "/PARTS behind it accumulates";

// Of one head of gpt's attention.
inline constexpr int64_t head_width = 32;
// Models that other cases have as well: mnist-mlp's, and what char-lstm's is made of.
inline constexpr int64_t character_vocabulary = 65;
std::shared_ptr<nn::Module> mlp_model(DeviceContext& device);
nn::RecurrentLmOptions char_lstm_options();

struct TrainingStep {
  std::shared_ptr<nn::Module> model;
  std::shared_ptr<nn::Optimizer> optimizer;
  Tensor x, y;  // a batch; what an autoencoder is to give is its x
  int64_t parts = 1;
  std::function<Tensor(const Tensor& x, const Tensor& y)> loss;  // records the forward pass

  // Records forward, backward and update; returns the loss.
  Tensor record() const;
};

// ValueError for a text of another form. Weights and data are the same on every device.
TrainingStep make_training_step(const std::string& text, DeviceContext& device);

}  // namespace heddle::bench
