#include "train/step.h"

#include "autograd/autograd.h"
#include "core/graph/autocast.h"
#include "core/graph/functions.h"

namespace heddle::train {
namespace {

// Uploaded, not recorded as zeros: the first step then has the structure of the later ones.
Tensor empty_list(DeviceContext& device) { return Tensor::from_vector(std::vector<float>(TrainingStep::window), Shape{TrainingStep::window}, &device); }

std::vector<float> first_of(const Tensor& list, int64_t count) {
  std::vector<float> values = list.to_vector<float>();
  values.resize(static_cast<size_t>(count));
  return values;
}

}  // namespace

TrainingStep::TrainingStep(Task& task, Optimizers& optimizers, nn::ExponentialAverage* average, const Config& config, DeviceContext& device)
    : task_(task),
      optimizers_(optimizers),
      average_(average),
      device_(device),
      accumulate_(config.training.accumulate),
      low_(config.training.precision == "f32" ? std::nullopt : std::optional(parse_dtype(config.training.precision))),
      clips_(config.training.clip_norm > 0),
      losses_(empty_list(device)),
      norms_(empty_list(device)),
      compiled_(compile([this](const std::vector<Tensor>& batch, int64_t part, int64_t keeping) { record(batch, part, keeping); }, {.name = "training step", .memory_budget = static_cast<uint64_t>(config.training.memory_budget)})) {}

void TrainingStep::submit(const std::vector<Tensor>& batch, int64_t part, bool keep) {
  if (keep && gradients_.empty()) {
    for (const Tensor& p : task_.model().parameters()) gradients_.push_back(zeros(p.shape(), p.dtype(), &device_));
    eval(gradients_);
  }
  compiled_(batch, part, keep ? 1 : 0);
  eval_pending();
  if (part + 1 == accumulate_) ++open_;
}

Tensor TrainingStep::forward(const std::vector<Tensor>& batch) {
  std::optional<AutocastScope> precision;
  if (low_) precision.emplace(*low_);
  return task_.loss(batch);
}

void TrainingStep::record(const std::vector<Tensor>& batch, int64_t part, int64_t keeping) {
  Tensor loss = forward(batch);
  if (accumulate_ > 1) loss = loss * (1.0 / static_cast<double>(accumulate_));
  backward(optimizers_.scaled(loss));
  keep(losses_, loss.detach(), part > 0);
  if (part + 1 < accumulate_) return;
  if (keeping != 0) keep_gradients();
  optimizers_.update();
  if (clips_) keep(norms_, optimizers_.norm(), false);
  optimizers_.zero_grad();
  if (average_ != nullptr) average_->update();
}

// A parameter that is frozen has none, and its copy stays 0.
void TrainingStep::keep_gradients() {
  const NoGradScope no_grad;
  const std::vector<Tensor> parameters = task_.model().parameters();
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (parameters[i].grad().defined()) gradients_[i].assign(parameters[i].grad());
  }
}

// list[open_] = value, or += value.
void TrainingStep::keep(Tensor& list, const Tensor& value, bool add) {
  const NoGradScope no_grad;
  const Tensor here = arange(0, window, 1, DType::f32, &device_) == Tensor::host_scalar([this] { return static_cast<float>(open_); }, &device_);
  const Tensor number = value.to(DType::f32);
  list.assign(where(here, add ? list + number : number, list));
}

TrainingStep::Results TrainingStep::take() {
  device_.synchronize();
  Results results{first_of(losses_, open_), clips_ ? first_of(norms_, open_) : std::vector<float>{}, {}, {}};
  if (const nn::LossScale* scale = optimizers_.loss_scale()) {
    results.loss_scale = scale->value().item();
    results.skipped = static_cast<int64_t>(scale->skipped().item());
  }
  open_ = 0;
  return results;
}

}  // namespace heddle::train
