#include "tools/mnist_mlp.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/error.h"

namespace heddle::tools {
namespace {

constexpr int64_t side = 28, classes = 10, evaluation_batch = 500;

}  // namespace

void check_recipe(const std::string& name) {
  if (name != "mnist-mlp")
    throw ValueError(fmt::format("[recipe] unknown recipe '{}'; known: {}", name, known_recipes));
}

nn::Sequential make_mnist_mlp(uint64_t seed, DeviceContext& device) {
  manual_seed(seed);
  return nn::Sequential{nn::Linear(side * side, 128, true, &device), nn::ReLU(), nn::Linear(128, 64, true, &device),
                        nn::ReLU(), nn::Linear(64, classes, true, &device)};
}

data::Split load_images(const std::string& folder) {
  data::Split split = folder.empty() ? data::stroke_digits() : data::read_mnist_folder(folder);
  if (split.train.rows != side || split.train.columns != side) {
    throw IoError(fmt::format("[mnist-mlp] {}: images are {}x{}, expected {}x{}", split.name, split.train.rows,
                              split.train.columns, side, side));
  }
  if (split.test.size() == 0) throw IoError(fmt::format("[mnist-mlp] {}: there are no test images", split.name));
  return split;
}

DeviceBatch upload(const data::Batch& batch, DeviceContext& device) {
  return {Tensor::from_batch(std::span<const float>(batch.images), {batch.size, side * side}, &device),
          Tensor::from_batch(std::span<const int32_t>(batch.labels), {batch.size}, &device)};
}

Evaluation evaluate_images(nn::Module& model, const data::ImageSet& set, DeviceContext& device, int64_t limit) {
  const NoGradScope no_grad;
  const bool was_training = model.training();
  model.eval();
  const int64_t images = limit > 0 ? std::min(limit, set.size()) : set.size();
  data::Batcher batcher(set, {.batch = std::min(images, evaluation_batch), .shuffle = false, .drop_last = false});
  data::Batch batch;
  Evaluation total;
  double right = 0, loss = 0;
  while (total.images < images && batcher.next(batch)) {
    batch.size = std::min(batch.size, images - total.images);
    batch.images.resize(static_cast<size_t>(batch.size * side * side));
    batch.labels.resize(static_cast<size_t>(batch.size));
    const DeviceBatch on_device = upload(batch, device);
    const Tensor logits = model(on_device.images);
    const Tensor batch_loss = cross_entropy(logits, on_device.labels, Reduction::sum);
    const Tensor batch_right = sum(cast(argmax(logits, 1) == on_device.labels, DType::f32));
    eval({batch_loss, batch_right});
    loss += batch_loss.item();
    right += batch_right.item();
    total.images += batch.size;
  }
  model.train(was_training);
  total.accuracy = right / static_cast<double>(total.images);
  total.loss = loss / static_cast<double>(total.images);
  return total;
}

}  // namespace heddle::tools
