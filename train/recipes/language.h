// Language models: a text as characters or byte pairs, and the next token of every position.
//
// Purpose: the task of char-gpt, char-lstm and gpt2, and of any model from tokens (N, T) to logits (N, T, vocabulary).
// The last part of the text, config.data.validation of it, is held out; the rest is for training, in blocks at random
// places as nanoGPT takes them; an epoch is as many as the text has blocks. The evaluation is over all blocks of what
// is held out, side by side. Of a mixture of experts the training loss has the routers' losses besides; lines of steps
// show their balance and the share of dropped picks. Invariants: the tokenizer is stored with the model
// (data/preprocess.h). Thread safety: none.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "heddle/data/text.h"
#include "heddle/data/tokenizer.h"
#include "heddle/nn/language_model.h"
#include "heddle/train/recipe.h"
#include "heddle/train/recipes/mixture.h"

namespace heddle::train {

struct Corpus {
  std::string name;
  data::TokenizerPtr tokenizer;
  data::TokenStream training, validation;
};

// The text of config.data.path, a file or a folder of .txt files, or a file of records of text, which brings its
// tokenizer along; without one the project's own kernels. The tokenizer is `stored`, or that of config.data.tokenizer
// (data/tokenizer_file.h), or `otherwise` made of the text.
Corpus read_corpus(const Config& config, data::TokenizerPtr stored,
                   data::TokenizerPtr (*otherwise)(const std::string& text, const Config& config));

class LanguageModel final : public Task {
 public:
  // The model's description is stored with it, so that it can generate without its recipe.
  LanguageModel(nn::LanguageModel model, Corpus corpus, int64_t block, const Config& config, DeviceContext& device);
  // Options that have no meaning for a recipe of this task.
  static std::vector<std::string> unused_options() { return {"data.augment", "data.mixup"}; }
  nn::Module& model() override { return model_->module(); }
  const TrainingData& training() const override { return data_; }
  Tensor loss(const std::vector<Tensor>& batch) override;
  std::vector<std::string> names_of_step() const override;
  std::vector<Tensor> take_figures_of_step() override { return std::exchange(figures_of_step_, {}); }
  Evaluation evaluate(int64_t limit) override;
  // What the model makes of the first token of the validation text.
  Generated generate() override;
  Metadata metadata() const override;

  // ---- of a model whose parts several ranks have (train/model_parallel/parted_task.h)
  // The model goes, and with it what asks for it; data and tokenizer stay.
  nn::LanguageModel take_model();
  // evaluate() and generate() by another's losses, means over a batch's tokens, and by another model of this form.
  Evaluation evaluate_by(int64_t limit, const Callable<double(const std::vector<Tensor>& batch)>& loss);
  Generated generate_by(const nn::LanguageModel& model);
  // `own`, and what the routers of the mixtures that it calls add to it.
  Tensor with_routers(const Callable<Tensor()>& own);
  const std::string& description() const { return description_; }
  double label_smoothing() const { return label_smoothing_; }

 private:
  Tensor loss_of(const std::vector<Tensor>& batch, double smoothing);
  int64_t each_validation_batch(int64_t limit, const Callable<void(const std::vector<Tensor>& batch)>& see);
  static Evaluation evaluation_of(double loss, int64_t examples);

  std::optional<nn::LanguageModel> model_;
  std::string description_;
  Corpus corpus_;
  int64_t block_;
  double label_smoothing_;
  bool routes_;  // the model has experts
  RouterWeights router_;
  std::vector<Tensor> figures_of_step_;
  DeviceContext& device_;
  TrainingData data_;
};

}  // namespace heddle::train
