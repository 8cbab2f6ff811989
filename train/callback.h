// Callback: what is told of a training run, and may end it.
//
//   struct Halve final : train::Callback {
//     void on_evaluate(train::Trainer& trainer, const train::Evaluation& e) override { if (e.loss < 0.1)
//     trainer.stop(); }
//   };
//   trainer.add(std::make_shared<Halve>());
//
// Order: on_train_start; for each epoch on_epoch_start, for each update on_batch_start and on_batch_end, on_epoch_end;
// on_train_end. on_steps comes when a window of updates is finished on the device: only then are losses known, and
// nothing waits for a single one. on_evaluate, on_sample, on_checkpoint, on_straggler and on_shares come as it happens.
// Callbacks are called in the order in which they were added. Errors: what a callback throws ends the run. Thread
// safety: called by the training thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "heddle/train/task.h"

namespace heddle::train {

class Trainer;

// How a run ended: by itself, by Trainer::stop(), by Trainer::interrupt().
enum class Outcome : uint8_t { finished, stopped, interrupted };

// One update, seen after its window.
struct StepRecord {
  int64_t step = 0;  // from 1
  double epoch = 0;  // passes over the data so far
  double loss = 0;   // mean over the update's examples
  double lr = 0;
  std::optional<double> grad_norm;   // before clipping; only measured with clip_norm
  std::optional<double> loss_scale;  // of f16 training, at the end of its window; with it, updates left out so far
  std::optional<int64_t> skipped;
  std::vector<std::pair<std::string, double>> figures = {};  // Task::names_of_step()
  double samples_per_second = 0;                             // of its window
  double seconds = 0;                                        // since the run began
};

// A rank that the others wait for.
struct Straggler {
  int rank = 0;
  double seconds = 0, others = 0;  // of an update, without waiting: its own, and the others' median
};

// Ranks that were lost, and without which the others go on.
struct LostRanks {
  std::vector<int> ranks;  // as the run began
  int left = 0;            // how many go on
  int64_t told = 0;        // the last update that callbacks were told of
  int64_t taken_back = 0;  // of these, how many are taken once more
  double seconds = 0;      // from when it was noticed until they went on
};

class Callback {
 public:
  virtual ~Callback() = default;
  virtual void on_train_start(Trainer&) {}
  virtual void on_epoch_start(Trainer&) {}
  virtual void on_batch_start(Trainer&) {}  // before an update is recorded
  virtual void on_batch_end(Trainer&) {}    // it is submitted, not finished
  virtual void on_steps(Trainer&, std::span<const StepRecord>) {}
  virtual void on_evaluate(Trainer&, const Evaluation&) {}
  virtual void on_test(Trainer&, const Evaluation&) {}   // the last figure, of tasks with test data of their own
  virtual void on_sample(Trainer&, const Generated&) {}  // of generative models
  virtual void on_checkpoint(Trainer&, const std::string& /*path*/) {}
  virtual void on_straggler(Trainer&, const Straggler&) {}
  virtual void on_shares(Trainer&, const std::vector<int64_t>& /*examples*/) {}  // of the batch, by rank, from now on
  virtual void on_lost_ranks(Trainer&, const LostRanks&) {}                      // behind on_train_start
  virtual void on_epoch_end(Trainer&) {}
  virtual void on_train_end(Trainer&, Outcome) {}

  // What a resumed run has to know again, stored in checkpoints. Names are unique among callbacks:
  // "early_stopping.best".
  virtual Metadata state() const { return {}; }
  virtual void load_state(const Metadata&) {}
};

}  // namespace heddle::train
