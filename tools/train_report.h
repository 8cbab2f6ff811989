// TrainReport: what a person sees of a training run: progress, evaluations, and at the end accuracy, speed and where
// the model is.
#pragma once

#include "heddle/train/callback.h"
#include "tools/progress.h"

namespace heddle::tools {

class TrainReport final : public train::Callback {
 public:
  TrainReport() : progress_(false) {}
  void on_train_start(train::Trainer& trainer) override;
  void on_steps(train::Trainer& trainer, std::span<const train::StepRecord> steps) override;
  void on_evaluate(train::Trainer& trainer, const train::Evaluation& evaluation) override;
  void on_straggler(train::Trainer& trainer, const train::Straggler& straggler) override;
  void on_shares(train::Trainer& trainer, const std::vector<int64_t>& examples) override;
  void on_lost_ranks(train::Trainer& trainer, const train::LostRanks& lost) override;
  void on_sample(train::Trainer& trainer, const train::Generated& made) override;
  void on_train_end(train::Trainer& trainer, train::Outcome outcome) override;

 private:
  void last_figure(const train::Evaluation& evaluation);
  void speed(const train::Trainer& trainer);

  Progress progress_;
  bool warned_ = false;    // that evaluations look at the test data
  bool compiled_ = false;  // the speed of the first window says nothing
};

// "test loss 0.0712, accuracy 0.9790, f1 0.9788".
std::string evaluation_line(const train::Evaluation& evaluation);
// Risk at each coverage, and the confusion matrix of up to 20 classes, rows by label; empty where there is neither.
std::string evaluation_tables(const train::Evaluation& evaluation);

}  // namespace heddle::tools
