// Trainer: the training loop.
//
//   train::Trainer trainer(task, config, device);
//   train::RunFolder folder("runs/first", false);
//   trainer.write_to(folder);
//   trainer.run();
//
// The step is compiled (core/compile/compile.h); the next batch is made, and uploaded, while the device works. The host
// waits for the device only at the end of a window of at most 50 updates (or a tenth of a second), where losses are
// looked at and callbacks are told. Invariants: into the run's folder (train/run_folder.h) go config.toml,
// environment.json, metrics.jsonl, checkpoints and, at the end, model.safetensors: the weights that were evaluated,
// with what using them takes; with checkpoint.use_best those of the checkpoint with the lowest validation loss. A
// checkpoint is only written when every loss up to it was finite, and every norm of gradients where it is measured.
// Rates, order of the data and random masks depend on seed and position alone, so a resumed run repeats the losses of
// an uninterrupted one bit for bit on the same device. Errors: ValueError for options that cannot be meant, for a loss
// that is not finite, and without a loss scale for such a norm of gradients: it names the step, the layer where one
// more run of the batch meets the first such number (train/not_finite.h), and the last checkpoint. NumericError under a
// number guard (core/graph/number_guard.h), IoError for files. Thread safety: none but interrupt().
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "heddle/train/callback.h"
#include "heddle/train/config.h"
#include "heddle/train/run_folder.h"
#include "heddle/train/task.h"
#include "heddle/train/throughput.h"

namespace heddle::train {

// Speed and memory of a run so far.
struct RunReport {
  double training_seconds = 0;     // batches, uploads and steps, without evaluations and files
  double median_step_seconds = 0;  // of windows, without the first, which compiles
  double samples_per_second = 0;   // of all updates: their examples / training_seconds; the one speed of a run, on the
                                   // terminal as in its files and its report
  double kernels_per_step = 0;     // of the last window
  uint64_t peak_device_bytes = 0;
  Throughput throughput;
  std::vector<double> rank_seconds;   // of an update's own work, by rank; empty of one process and of a short run
  std::optional<double> bubble = {};  // of a pipeline: share of its time in which stages wait
  uint64_t bytes_sent = 0;            // by this rank in an update, without evaluations and files
  double communication_hidden = 0;    // share of the time of communication that passed while the device computed
};

class Replicas;
struct Remains;
struct SurvivorState;

inline constexpr int64_t default_copies_every = 10;  // updates

class Trainer {
 public:
  // The task has to outlive the trainer. With `replicas`, which may be null, each rank trains on its part of every
  // batch and all take the same updates: parameters are the same bits on all of them; where devices differ they are
  // those of the first rank. Files are the first rank's, which evaluates with the others and tests alone. Batch norms
  // see their rank's part of a batch, random masks are drawn for each rank by itself. Errors besides: ValueError where
  // ranks differ in options, code, data or weights, and for a task whose loss weighs examples differently; those of
  // distributed/errors.h.
  Trainer(Task& task, const Config& config, DeviceContext& device, Replicas* replicas = nullptr);
  ~Trainer();
  // Where the run leaves its files; without a folder there are none. It has to outlive the trainer.
  void write_to(RunFolder& folder);
  void add(std::shared_ptr<Callback> callback);
  // Goes on from the folder's newest whole checkpoint, or begins again where there is none yet; what there is to say
  // about that. IoError when all are broken.
  std::vector<std::string> resume();
  // The same from the folder of a run that another rank writes to.
  std::vector<std::string> resume(const std::string& folder);
  // Where ranks share states and go on without one that is lost: updates between copies of each rank's part in the
  // next one's memory (train/buddy_copies.h); 0: none, and a loss takes the run back to its last checkpoint.
  void set_copies_every(int64_t updates);
  // What this rank has of the run when run() ended with a CommunicationError, for the ranks that are left. Waits for
  // the device.
  Remains remains();
  // Another trainer's run() goes on there.
  void go_on(SurvivorState state);
  // Callbacks are told of it when the run begins.
  void set_lost(const LostRanks& lost);
  // `evaluate` false: trains and saves only.
  Outcome run(bool evaluate = true);

  // The run ends after the update under way: regularly, with its evaluation and model.
  void stop();
  // The same without evaluation; may be called by a signal handler.
  void interrupt() noexcept;

  const Config& config() const;
  Task& task() const;
  DeviceContext& device() const;
  int64_t step() const;        // updates done (on_batch_start: before the one under way)
  int64_t first_step() const;  // where this process began
  int64_t last_step() const;   // where it ends if nothing stops it
  int64_t steps_per_epoch() const;
  int64_t epoch() const;   // of the next update, from 0
  int64_t epochs() const;  // of the whole run, a part counted as one
  double seconds() const;  // since run()
  double last_loss() const;
  // Of every log.histograms_every-th update, before clipping, in the order of the model's parameters; empty before the
  // first.
  const std::vector<Tensor>& gradients() const;
  const Evaluation& evaluation() const;  // the latest; at the end of a run that uses the best, that one's
  int64_t model_step() const;            // which step the run's model is of
  const Evaluation& tested() const;  // at the end of the run; no examples before it, and for a task without test data
  RunReport report() const;
  const Replicas* replicas() const;  // null: this process trains alone
  // SHA-256 of the model's parameters as train::parameters_sha256() gives it; where ranks share them, or have parts of
  // the model, at the run's end, and empty before.
  std::string weights_sha256() const;
  // Of the latest checkpoint, empty before it, and of the model; without a folder empty.
  // How long training stood for the latest checkpoint: for the copy of its values, and for the files of the one before.
  double checkpoint_stall() const;
  std::string checkpoint_path() const;
  std::string model_path() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace heddle::train
