// The recipe mnist-mlp: model, data and measurements that train, eval and dump share.
//
// Purpose: 784-128-64-10 with ReLU and softmax cross entropy, 109,386 parameters, on 28x28 images of ten classes.
// Thread safety: none.
#pragma once

#include <string>

#include "data/batcher.h"
#include "data/datasets.h"
#include "nn/nn.h"

namespace heddle::tools {

inline constexpr const char* known_recipes = "mnist-mlp";

// ValueError that lists the known recipes.
void check_recipe(const std::string& name);

// Weights drawn from `seed`, the same on every device.
nn::Sequential make_mnist_mlp(uint64_t seed, DeviceContext& device);

// The folder's IDX files, or the embedded set when `folder` is empty. Refuses images that are not 28x28.
data::Split load_images(const std::string& folder);

struct DeviceBatch {
  Tensor images;  // (N, 784) f32
  Tensor labels;  // (N) i32
};
DeviceBatch upload(const data::Batch& batch, DeviceContext& device);

struct Evaluation {
  double accuracy = 0;
  double loss = 0;
  int64_t images = 0;
};
// Mean loss and share of right answers over the set, or its first `limit` images when limit > 0.
Evaluation evaluate_images(nn::Module& model, const data::ImageSet& set, DeviceContext& device, int64_t limit = 0);

}  // namespace heddle::tools
