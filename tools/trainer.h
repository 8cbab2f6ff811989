// Trainer: the training run of a recipe, from options to a saved model.
//
// Purpose: `heddle train`. The loop records a step, hands it to the device and assembles the next batch meanwhile; it
// waits for the device only at the end of a window of at most 50 steps (or a tenth of a second), where losses are
// looked at and progress is shown. Invariants: files in the output folder appear by rename: checkpoint.safetensors
// (parameters, optimizer state, position; written after each epoch, every --checkpoint-every steps, and on Ctrl-C) and
// model.safetensors (parameters only, at the end). A checkpoint is only written when every loss up to it was finite.
// The learning rate of a step and the order of the data depend on seed and position alone. Errors: as typed exceptions;
// options are checked, and the output folder is tried, before anything is trained. Thread safety: none.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace CLI {
class App;
}

namespace heddle::tools {

struct TrainOptions {
  std::string recipe;
  std::string data;  // empty: the embedded set
  std::string device;
  std::string optimizer = "adam";
  std::string schedule = "cosine";
  std::string out = "runs/mnist-mlp";
  int64_t epochs = 5;
  int64_t batch = 32;
  double lr = 1e-3;
  double weight_decay = 0;
  std::optional<double> clip_norm;
  uint64_t seed = 1;
  int64_t checkpoint_every = 0;  // steps; 0: only after each epoch
  int64_t limit_steps = 0;       // stop after that many steps; 0: no limit
  uint64_t memory_budget = 0;    // bytes of a step (core/exec/memory_budget.h); 0: none
  int64_t limit_test = 0;        // images of the final test; 0: all
  bool resume = false;
  bool json = false;
  // For `heddle profile`: no output of its own; called before each step with the number of steps that this run has done, and after the last.
  bool quiet = false;
  std::function<void(int64_t done)> before_step;
  std::function<void()> after_steps;
};

// Every option of `heddle train` but --json.
void add_train_options(CLI::App& command, TrainOptions& options);

class Trainer {
 public:
  explicit Trainer(const TrainOptions& options);
  ~Trainer();
  // Trains, tests, saves and reports; returns the exit code.
  int run();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace heddle::tools
