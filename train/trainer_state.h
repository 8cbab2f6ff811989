// Trainer::State: what a training run is made of, and its loop.
//
// Invariants: those of Trainer. One process and several ranks run the same loop: `replicas` answers for a world of one
// as well, where each question costs nothing. Thread safety: none but `interrupted`.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "heddle/train/background_task.h"
#include "heddle/train/balance.h"
#include "heddle/train/buddy_copies.h"
#include "heddle/train/checkpoint.h"
#include "heddle/train/evaluation_scope.h"
#include "heddle/train/feed.h"
#include "heddle/train/model_parallel/parted_tensors.h"
#include "heddle/train/rank_pace.h"
#include "heddle/train/replicas.h"
#include "heddle/train/run_length.h"
#include "heddle/train/run_state.h"
#include "heddle/train/step.h"
#include "heddle/train/survivor_state.h"
#include "heddle/train/trainer.h"
#include "heddle/train/update_window.h"

namespace heddle::train {

struct Trainer::State {
  State(Trainer& trainer, Task& task, const Config& config, DeviceContext& device, Replicas* ranks);

  void write_to(RunFolder& folder);
  std::vector<std::string> resume(const std::string& path);
  Outcome run(bool evaluating);
  Remains remains();
  void go_on(SurvivorState state);
  int64_t last_step() const;

  struct Alone {
    distributed::World world;
    Replicas replicas{world};
  };

  Trainer& self;
  Task& task;
  const Config config;
  DeviceContext& device;
  Replicas* const ranks;        // may be null
  std::optional<Alone> alone;   // where it is
  Replicas& replicas;           // one of the two
  RunFolder* folder = nullptr;  // may stay null
  DeviceWatch watch;
  Feed feed;
  const RunLength length;
  std::shared_ptr<nn::Plateau> plateau;
  Optimizers optimizers;
  std::optional<nn::ExponentialAverage> average;
  TrainingStep training_step;
  std::vector<std::shared_ptr<Callback>> callbacks;
  std::optional<CheckpointWriter> checkpoints;
  BackgroundTask part_writing;  // of a rank that shares states and does not lead

  int64_t step = 0;                     // done so far
  data::Loader::Position stream_begin;  // where a stream goes on
  int64_t first_step = 0;               // where this process began
  std::atomic<bool> interrupted{false};
  bool stopped = false;
  Wishes agreed;                        // of all ranks
  std::string checkpoint_path;          // of the latest
  uint64_t bytes_sent = 0;              // by this rank, in updates
  double save_stall = 0;                // seconds that training stood for it
  std::optional<PartedTensors> parted;  // where ranks have parts of the model
  std::optional<double> bubble;         // of its stages, at the end
  std::string shared_folder;            // of checkpoints, where ranks write states of their own; empty: none
  Evaluation evaluation, tested;
  int64_t evaluated_at = -1, saved_at = -1;
  int64_t model_step = 0;      // of the weights that the run leaves
  std::string weights_sha256;  // of the whole model's parameters: where they are compared, and at the end
  // Of the update under way, before it was begun.
  struct Begun {
    data::Loader::Position position;
    uint64_t random_offset = 0;
  };
  std::optional<Begun> begun;
  std::optional<uint64_t> first_seed;  // of the random numbers, before ranks got their own
  std::vector<StepRecord> untold;      // of a window that is closed
  int64_t told = 0;                    // the last update that callbacks were told of
  int64_t copies_every = default_copies_every;
  std::optional<BuddyCopies> buddies;  // where ranks that share states go on without one that is lost
  BuddyCopies::Cuts cuts;
  std::optional<SurvivorState> gone_on_from;  // until all have copies of it
  std::optional<LostRanks> lost;              // behind which this trainer goes on
  UpdateWindow window;
  RankPace pace{replicas};
  Balance balance{replicas, config};

 private:
  template <class Call>
  void tell(Call call) {
    for (const std::shared_ptr<Callback>& callback : callbacks) call(*callback);
  }
  template <class Measure>
  auto measured(Measure measure) {
    const ParametersScope parameters(shared_parameters(), ParametersScope::Use::evaluation);
    EvaluationScope scope(task.model(), average);
    auto result = measure();
    scope.end();
    return result;
  }

  // Null where this rank has all parameters.
  ShardedParameters* shared_parameters() { return training_step.parameters(); }
  // Whether no rank has the model alone.
  bool in_parts() { return parted || shared_parameters() != nullptr; }
  // Where values of a checkpoint go.
  DeviceContext& checkpoint_device() { return in_parts() ? device_of_whole_values() : device; }
  bool is_stopped() const;
  bool is_interrupted() const;
  bool ending() const { return step >= last_step() || is_stopped() || is_interrupted(); }
  RunState run_state() {
    return {task, optimizers, average ? &*average : nullptr, plateau.get(), callbacks, shared_parameters()};
  }

  void open_window();
  bool window_is_full() const;
  void close_window();
  void look_at_ranks(int64_t updates);
  std::string last_checkpoint() const;
  std::string origin(const data::Loader::Position& position);
  std::string origin_of_evaluation();
  [[noreturn]] void stop_at(const std::string& what, int64_t at, const std::string& where) const;

  void begin_with_others();
  void tell_of_survival();
  void tell_of_steps(const std::vector<StepRecord>& records);
  void begin_copies();
  void keep_copies(const data::Loader::Position& next);
  void settle_copies();
  void add_frozen(SurvivorState& state);
  std::vector<StepRecord> all_untold();
  void compare_weights(const std::string& what);
  Checkpoint whole_checkpoint();
  // Ranks read those of their own elements.
  States place_of_states() const { return optimizers.keeps_shards() ? States::on_host : States::on_device; }
  Wishes wishes() const;
  void fetch_beside();
  void submit_step();
  void run_epoch(int64_t epoch, bool evaluating);
  void evaluate();
  void test();
  void generate();
  void generate_here();
  void save_checkpoint();
  void save_beside();
  AroundWriting begin_shards();
  void wait_for_files();
  std::optional<LatestCheckpoint> best_checkpoint();
  void take_best();
  void save_model(const WholeParameters& whole);
  void finish(bool evaluating);
};

}  // namespace heddle::train
