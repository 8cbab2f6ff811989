#include "heddle/train/model_parallel/parted_task.h"

#include <fmt/format.h>

#include <utility>

#include "heddle/core/base/error.h"
#include "heddle/train/model_parallel/check_mesh.h"
#include "heddle/train/model_parallel/parted_tensors.h"

namespace heddle::train {
namespace {

const nn::Gpt* gpt_of(Task& task) { return dynamic_cast<nn::Gpt*>(&task.model()); }

}  // namespace

PartedTask::PartedTask(std::unique_ptr<LanguageModel> whole, const Config& config, Replicas& replicas,
                       DeviceContext& device)
    : whole_(std::move(whole)), parted_(*gpt_of(*whole_), config, replicas, device) {
  (void)whole_->take_model();
}

Tensor PartedTask::loss(const std::vector<Tensor>& batch) {
  return whole_->with_routers([&] { return parted_.loss(batch, whole_->label_smoothing()); });
}

Evaluation PartedTask::evaluate(int64_t limit) {
  return whole_->evaluate_by(limit, [this](const std::vector<Tensor>& batch) { return parted_.evaluate(batch); });
}

Generated PartedTask::generate() {
  const TensorMap weights = PartedTensors(parted_).joined_weights();
  if (!parted_.replicas().leads()) return {};
  const nn::LanguageModel together(whole_->description(), parted_.device());
  together.module().load_state_dict(weights);
  return whole_->generate_by(together);
}

std::unique_ptr<Task> in_parts(std::unique_ptr<Task> task, const Config& config, DeviceContext& device,
                               Replicas* replicas) {
  check_axis_options(config, replicas);
  if (replicas == nullptr || !(replicas->share_model() || computes_experts_apart(config))) return task;
  auto* language = dynamic_cast<LanguageModel*>(task.get());
  if (language == nullptr || gpt_of(*task) == nullptr)
    throw ValueError(fmt::format("[mesh] {}: the model of {} has no layers in parts; those of char-gpt and gpt2 have",
                                 replicas->mesh(), config.run.recipe));
  (void)task.release();
  return std::make_unique<PartedTask>(std::unique_ptr<LanguageModel>(language), config, *replicas, device);
}

}  // namespace heddle::train
