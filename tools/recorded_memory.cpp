#include "tools/recorded_memory.h"

#include <algorithm>
#include <vector>

#include "bench/training_step.h"
#include "heddle/core/functions/functions.h"
#include "heddle/core/functions/shape/index_check.h"
#include "heddle/nn/accumulate.h"
#include "heddle/nn/init.h"

namespace heddle::tools {
namespace {

constexpr double states_of_element = 2;  // of Adam and AdamW, which the training steps have

std::vector<Tensor> values_of(const nn::NamedTensors& named) {
  std::vector<Tensor> found;
  for (const auto& [name, tensor] : named) found.push_back(tensor);
  return found;
}

// The step with so many examples in its batch.
bench::TrainingStep resized(const std::string& text, const RecordedBatch& batch, DeviceContext& device) {
  bench::TrainingStep step = bench::make_training_step(text, device);
  const auto part_of = [&](const Tensor& whole) {
    Shape shape{batch.examples};
    for (int axis = 1; axis < whole.rank(); ++axis) shape.push_back(whole.dim(axis));
    return zeros(shape, whole.dtype(), &device);
  };
  const bool same = step.y.node() == step.x.node();  // an autoencoder's
  step.x = part_of(step.x);
  step.y = same ? step.x : part_of(step.y);
  step.parts = batch.parts;
  eval(std::vector<Tensor>{step.x, step.y});
  return step;
}

// Gradients, floating buffers and the loss, as train/shared_gradients.h sends them.
Tensor record_gradients(const bench::TrainingStep& step, double weight) {
  const Tensor loss = nn::accumulate({.parts = step.parts}, step.loss, step.x, step.y);
  const NoGradScope no_grad;
  std::vector<Tensor> list;
  for (const Tensor& p : step.model->parameters())
    if (p.grad().defined()) list.push_back(reshape(p.grad(), Shape{p.numel()}));
  for (const auto& [name, buffer] : step.model->named_buffers())
    if (is_float(buffer.dtype())) list.push_back(reshape(buffer, Shape{buffer.numel()}));
  list.push_back(reshape(loss, Shape{1}));
  const Tensor whole = concat(list, 0) * weight;
  step.optimizer->zero_grad();
  return whole;
}

void record_update(const bench::TrainingStep& step, const Tensor& list) {
  const NoGradScope no_grad;
  int64_t at = 0;
  for (Tensor p : step.model->parameters()) {
    p.set_grad(reshape(slice(list, 0, {.start = at, .stop = at + p.numel()}), p.shape()));
    at += p.numel();
  }
  step.optimizer->update();
  step.optimizer->zero_grad();
}

// One update: the list goes to the host and comes back.
void take_step(const bench::TrainingStep& step, DeviceContext& device) {
  std::vector<float> values = record_gradients(step, 0.5).to_vector<float>();
  const Shape shape{static_cast<int64_t>(values.size())};
  record_update(step, Tensor::from_vector(values, shape, &device));
  eval_pending();
}

uint64_t bytes_of(const std::vector<Tensor>& tensors) {
  uint64_t bytes = 0;
  for (const Tensor& tensor : tensors) bytes += static_cast<uint64_t>(tensor.numel()) * size_of(tensor.dtype());
  return bytes;
}

}  // namespace

distributed::MemoryForecast record_memory(const std::string& text, const RecordedBatch& batch, DeviceContext& blank) {
  const nn::init::SkipScope skip;
  const IndexGuardScope unwatched(IndexGuard::off);  // a blank device would say that index 0 is wrong
  const bench::TrainingStep step = resized(text, batch, blank);
  // The first update makes the optimizer's states, the second is as all later ones.
  take_step(step, blank);
  blank.reset_peak_memory();
  take_step(step, blank);
  const auto parameters = static_cast<double>(bytes_of(step.model->parameters()));
  const auto buffers = static_cast<double>(bytes_of(values_of(step.model->named_buffers())));
  distributed::MemoryForecast m;
  m.parameters = parameters + buffers;
  m.gradients = parameters;
  m.optimizer = states_of_element * parameters;
  m.peak = static_cast<double>(blank.memory().peak_bytes);
  m.activations = std::max(0.0, m.peak - m.parameters - m.gradients - m.optimizer);
  return m;
}

}  // namespace heddle::tools
