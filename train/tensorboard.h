// TensorboardEvents: a run as event files that TensorBoard shows (io/event_file.h).
//
// Scalars train/loss, train/lr, train/grad_norm, train/samples_per_second and <split>/loss, <split>/<metric>; the
// configuration and samples as texts, images, the recorded graph of the loss; with log.histograms_every, histograms of
// weights and of gradients (before clipping) by the parameters' names. Invariants: what is trained does not change: the
// graph is recorded in evaluation mode from a batch of its own and never computed. Errors: IoError. Thread safety:
// none.
#pragma once

#include <string>

#include "heddle/io/event_file.h"
#include "heddle/train/callback.h"

namespace heddle::train {

class TensorboardEvents final : public Callback {
 public:
  // Into a folder of event files; `run_folder` is where samples' images lie.
  TensorboardEvents(const std::string& folder, std::string run_folder)
      : file_(folder), run_folder_(std::move(run_folder)) {}
  void on_train_start(Trainer& trainer) override;
  void on_batch_end(Trainer& trainer) override;
  void on_steps(Trainer& trainer, std::span<const StepRecord> steps) override;
  void on_evaluate(Trainer& trainer, const Evaluation& evaluation) override { evaluated(trainer, evaluation); }
  void on_test(Trainer& trainer, const Evaluation& evaluation) override { evaluated(trainer, evaluation); }
  void on_sample(Trainer& trainer, const Generated& made) override;

 private:
  void evaluated(const Trainer& trainer, const Evaluation& evaluation);

  EventFile file_;
  std::string run_folder_;
};

}  // namespace heddle::train
