// Fine-tuning a language model that there is: adapters of low rank, or all of its weights.
//
// Purpose: the task of `heddle finetune`. Examples are conversations or texts (data/chat.h) in rows of the length,
// several short ones in a row, each seeing itself alone; the loss is that of the answers' tokens, by
// nn::linear_cross_entropy(), so that no logits are stored; that and the distance from a teacher
// (nn/distillation.h); or that of pairs of answers (nn/preference_losses.h). A share of the examples is held out.
// Invariants: what is saved is what is trained: adapters under PEFT's names, or the model's state; the run's folder
// gets adapter/ (PEFT's files) and adapter.gguf (llama.cpp's), or the whole model's weights. Errors: ValueError and
// IoError of options, data and model. Thread safety: none.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "heddle/nn/lora.h"
#include "heddle/train/recipe.h"
#include "heddle/train/recipes/base_model.h"
#include "heddle/train/recipes/finetune_data.h"
#include "heddle/train/recipes/finetune_objective.h"

namespace heddle::train {

// Tokens that an evaluation takes at once.
inline constexpr int64_t evaluation_tokens = 2048;

class Finetune final : public Task {
 public:
  Finetune(BaseModel base, ChatData data, const Config& config, DeviceContext& device);
  nn::Module& model() override { return adapters_ ? static_cast<nn::Module&>(*adapters_) : *base_.network; }
  nn::Module& network() override { return *base_.network; }
  const TrainingData& training() const override { return data_; }
  Tensor loss(const std::vector<Tensor>& batch) override;
  bool loss_weighs_examples_alike() const override { return false; }  // by the tokens of their answers
  std::vector<std::string> names_of_step() const override;
  std::vector<Tensor> take_figures_of_step() override { return std::exchange(figures_of_step_, {}); }
  Evaluation evaluate(int64_t limit) override;
  Generated generate() override;
  Metadata metadata() const override;
  void write_beside(const std::string& folder) override;
  std::vector<Figure> figures() const override;
  std::vector<std::string> remarks() const override { return remarks_; }

 private:
  void make_rows(const ChatData& data, const Config& config);
  void make_pairs(const ChatData& data, const Config& config);
  PreferenceLoss pair_loss(const std::vector<Tensor>& batch, double smoothing);
  // Tokens, targets, and segments where rows are packed.
  std::vector<Tensor> rows_of(const std::vector<Tensor>& batch) const;
  DistilledLoss distil_loss(const std::vector<Tensor>& rows, double smoothing);
  Tensor loss_of(const std::vector<Tensor>& batch, double smoothing);
  // Of rows or pairs: their means over what the loss counts, its number in front.
  std::vector<double> measured(const std::vector<Tensor>& batch);

  BaseModel base_;
  std::optional<nn::Lora> adapters_;  // none: all weights are trained
  FinetuneObjective objective_;
  std::shared_ptr<nn::Llama> reference_;  // of dpo where all weights are trained: the base as it was
  std::shared_ptr<nn::Llama> teacher_;    // of distil
  // A last projection is more than its weight: hooks act on it, or its logits are capped; the teacher's counts too.
  bool own_head_ = false;
  bool packs_;
  double label_smoothing_;
  std::string base_path_, adapter_path_;
  std::vector<int32_t> prompt_;
  std::vector<std::string> remarks_;
  TrainingData data_;
  data::DatasetPtr validation_;
  int64_t validation_tokens_ = 1;  // of one of its examples
  double loss_before_ = 0;
  std::vector<Tensor> figures_of_step_;
  DeviceContext& device_;
};

}  // namespace heddle::train
