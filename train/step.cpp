#include "heddle/train/step.h"

#include <fmt/format.h>

#include <cmath>

#include "heddle/autograd/autograd.h"
#include "heddle/core/base/error.h"
#include "heddle/core/compile/compile.h"
#include "heddle/core/device/context.h"
#include "heddle/core/functions/functions.h"
#include "heddle/core/graph/autocast.h"
#include "heddle/nn/accumulate.h"
#include "heddle/train/flat_list.h"
#include "heddle/train/not_finite.h"

namespace heddle::train {
namespace {

Tensor empty_list(DeviceContext& device) { return kept_zeros(Shape{TrainingStep::window}, device); }

std::vector<float> first_of(const Tensor& list, int64_t count) {
  std::vector<float> values = list.to_vector<float>();
  values.resize(static_cast<size_t>(count));
  return values;
}

}  // namespace

TrainingStep::TrainingStep(Task& task, Optimizers& optimizers, nn::ExponentialAverage* average, const Config& config,
                           DeviceContext& device, Replicas* replicas)
    : task_(task),
      optimizers_(optimizers),
      average_(average),
      config_(config),
      device_(device),
      replicas_(replicas),
      accumulate_(config.training.accumulate),
      low_(config.training.precision == "f32" ? std::nullopt : std::optional(parse_dtype(config.training.precision))),
      clips_(config.training.clip_norm > 0),
      losses_(empty_list(device)),
      norms_(empty_list(device)),
      compiled_(
          compile([this](const std::vector<Tensor>& batch, int64_t keeping) { record(batch, keeping); },
                  {.name = "training step", .memory_budget = static_cast<uint64_t>(config.training.memory_budget)})) {
  if (PartedModel* parted = task.parted()) {
    if (config.training.parts > 0) batch_parts_.emplace(task.model(), config, *replicas);
    mesh_.emplace(*parted, optimizers, config, batch_parts_ ? &*batch_parts_ : nullptr, parts());
  } else if (replicas != nullptr && (!replicas->alone() || config.training.parts > 0)) {
    share();
  }
  if (replicas != nullptr && replicas->shares_states()) {
    if (config.training.sharding == "none")
      throw ValueError(fmt::format("[mesh] {}: what ranks along fsdp share is said by --sharding zero1, zero2 or zero3",
                                   replicas->mesh()));
    if (replicas->mixed() && replicas->owners() < replicas->size())
      throw ValueError(fmt::format("[mesh] {}: owners of one element would round apart, since ranks' devices differ",
                                   replicas->mesh()));
  }
  if (shares_states(config, replicas))
    sharded_.emplace(task.model(), optimizers, config, device, *replicas, *batch_parts_, parts_of_sharded());
  if (compresses(config, replicas != nullptr ? replicas->size() : 1))
    compressed_.emplace(task.model(), config, device, *replicas, parts());
  if (accumulate_ == 1) figure_names_ = task.names_of_step();
  for (size_t i = 0; i < figure_names_.size(); ++i) figures_.push_back(empty_list(device));
}

// What is compiled has the rank's share in it.
void TrainingStep::share() {
  shared_.reset();
  batch_parts_.emplace(task_.model(), config_, *replicas_);
  shared_.emplace(task_.model(), config_, device_, *replicas_, *batch_parts_, parts());
}

Wishes TrainingStep::submit(const std::vector<Tensor>& batch, bool keep, const Wishes& mine,
                            const Callable<void()>& meanwhile) {
  if (keep) prepare_gradients();
  Wishes all = mine;
  if (mesh_) {
    all = mesh_->submit(batch, mine, meanwhile);
  } else if (sharded_) {
    all = sharded_->submit(batch, mine, meanwhile);
  } else if (compressed_) {
    all = compressed_->submit(batch, keep ? 1 : 0, mine, meanwhile);
  } else if (shared_) {
    all = shared_->submit(batch, keep ? 1 : 0, mine, meanwhile);
  } else {
    compiled_(batch, keep ? 1 : 0);
    eval_pending();
  }
  ++open_;
  return all;
}

void TrainingStep::follow_first() {
  if (shared_ && parameters() == nullptr) shared_->follow_first();
}

void TrainingStep::prepare_gradients() {
  if (!gradients_.empty()) return;
  for (const Tensor& p : task_.model().parameters()) gradients_.push_back(zeros(p.shape(), p.dtype(), &device_));
  eval(gradients_);
}

Tensor TrainingStep::forward(const std::vector<Tensor>& batch) {
  std::optional<AutocastScope> precision;
  if (low_) precision.emplace(*low_);
  return task_.loss(batch);
}

// The loss, after backward().
Tensor TrainingStep::differentiate(const std::vector<Tensor>& batch) {
  if (accumulate_ > 1)
    return nn::accumulate(
        {.parts = accumulate_, .scale = optimizers_.loss_scale()},
        [this](const std::vector<Tensor>& part) { return forward(part); }, batch);
  const Tensor loss = forward(batch);
  backward(optimizers_.scaled(loss));
  return loss.detach();
}

void TrainingStep::record(const std::vector<Tensor>& batch, int64_t keeping) {
  const Tensor loss = differentiate(batch);
  update(loss, task_.take_figures_of_step(), keeping);
}

// Averaged are the loss and the figures.
std::vector<Tensor> TrainingStep::gradients_and_scalars(const std::vector<Tensor>& part) {
  std::vector<Tensor> scalars = {differentiate(part)};
  const std::vector<Tensor> figures = task_.take_figures_of_step();
  for (size_t i = 0; i < figures_.size(); ++i) scalars.push_back(figures.at(i));
  return scalars;
}

SharedStep::Parts TrainingStep::parts() {
  return {.gradients = [this](const std::vector<Tensor>& part) { return gradients_and_scalars(part); },
          .zero_grad = [this] { optimizers_.zero_grad(); },
          .update =
              [this](const std::vector<Tensor>& averages, int64_t keeping, const Tensor& norm) {
                update(averages.front(), {averages.begin() + 1, averages.end()}, keeping, norm);
              }};
}

ShardedStep::Parts TrainingStep::parts_of_sharded() {
  return {.gradients = [this](const std::vector<Tensor>& part) { return gradients_and_scalars(part); },
          .look =
              [this](const std::vector<Tensor>& averages) {
                look(averages.front(), {averages.begin() + 1, averages.end()});
              },
          .updated =
              [this] {
                if (clips_) keep(norms_, optimizers_.norm());
              },
          .gathered =
              [this] {
                if (average_ != nullptr) average_->update();
              }};
}

void TrainingStep::look(const Tensor& loss, const std::vector<Tensor>& figures) {
  keep(losses_, loss);
  for (size_t i = 0; i < figures_.size(); ++i) keep(figures_[i], figures.at(i));
}

void TrainingStep::update(const Tensor& loss, const std::vector<Tensor>& figures, int64_t keeping, const Tensor& norm) {
  look(loss, figures);
  if (keeping != 0) keep_gradients();
  optimizers_.update(norm);
  if (clips_) keep(norms_, optimizers_.norm());
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

std::vector<std::vector<Tensor>> TrainingStep::parts_of(const std::vector<Tensor>& batch) const {
  if (batch_parts_) return batch_parts_->split(batch);
  return std::vector<std::vector<Tensor>>(1, batch);
}

std::string TrainingStep::first_not_finite(const std::vector<Tensor>& batch) {
  nn::Module& network = task_.network();
  for (const nn::Module* module : {&task_.model(), &network}) {
    if (const std::string name = train::first_not_finite(module->named_parameters()); !name.empty())
      return "the weight " + name;
  }
  const OutputWatch watch(network);
  Tensor loss;
  for (const std::vector<Tensor>& part : parts_of(batch)) {
    const Tensor one = differentiate(part);
    loss = loss.defined() ? loss + one : one;
  }
  nn::NamedTensors gradients;
  for (const auto& [name, p] : task_.model().named_parameters()) {
    if (p.grad().defined()) gradients.emplace_back(name, p.grad());
  }
  optimizers_.zero_grad();
  if (const std::string path = watch.first(); !path.empty()) return "the output of " + path;
  if (!std::isfinite(loss.item())) return "the loss";
  // Gradients come from behind.
  const std::string name = last_without_norm(gradients);
  return name.empty() ? name : "the gradient of " + name;
}

// list[open_] = value.
void TrainingStep::keep(Tensor& list, const Tensor& value) {
  const NoGradScope no_grad;
  const Tensor here = arange(0, window, 1, DType::f32, &device_) ==
                      Tensor::host_scalar([this] { return static_cast<float>(open_); }, &device_);
  list.assign(where(here, value.to(DType::f32), list));
}

TrainingStep::Results TrainingStep::take() {
  device_.synchronize();
  Results results{first_of(losses_, open_), clips_ ? first_of(norms_, open_) : std::vector<float>{}, {}, {}, {}};
  for (size_t i = 0; i < figures_.size(); ++i)
    results.figures.emplace_back(figure_names_[i], first_of(figures_[i], open_));
  if (const nn::LossScale* scale = optimizers_.loss_scale()) {
    results.loss_scale = scale->value().item();
    results.skipped = static_cast<int64_t>(scale->skipped().item());
  }
  open_ = 0;
  return results;
}

}  // namespace heddle::train
