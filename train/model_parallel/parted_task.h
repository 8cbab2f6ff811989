// PartedTask: the task of a language model whose parts the ranks of a mesh have.
//
//   task = train::in_parts(std::move(task), config, device, &replicas);   // the same one where ranks share batches
//   alone
//
// Purpose: data, tokenizer and description are the whole task's; the model, its loss and its evaluation are the rank's
// part. Invariants: the rank's parts begin as parts of the weights that one process begins with; the whole model goes
// when they are made, and is put together again on the first rank alone, for what it generates. Every rank makes the
// same calls; loss() is recorded within a program of ranks (mesh_step.h). Errors: ValueError for a recipe that has no
// layers in parts, and those of PartedModel. Thread safety: none.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "heddle/train/model_parallel/parted_model.h"
#include "heddle/train/recipes/language.h"
#include "heddle/train/task.h"

namespace heddle::train {

class PartedTask final : public Task {
 public:
  // The task's model is a Gpt.
  PartedTask(std::unique_ptr<LanguageModel> whole, const Config& config, Replicas& replicas, DeviceContext& device);
  nn::Module& model() override { return parted_.module(); }
  PartedModel* parted() override { return &parted_; }
  const TrainingData& training() const override { return whole_->training(); }
  Tensor loss(const std::vector<Tensor>& batch) override;
  std::vector<std::string> names_of_step() const override { return whole_->names_of_step(); }
  std::vector<Tensor> take_figures_of_step() override { return whole_->take_figures_of_step(); }
  Evaluation evaluate(int64_t limit) override;
  Generated generate() override;
  Metadata metadata() const override { return whole_->metadata(); }

 private:
  std::unique_ptr<LanguageModel> whole_;
  PartedModel parted_;
};

// `replicas` may be null. ValueError besides: options of axes that the mesh has not.
std::unique_ptr<Task> in_parts(std::unique_ptr<Task> task, const Config& config, DeviceContext& device,
                               Replicas* replicas);

}  // namespace heddle::train
