// What a run writes and reads: checkpoints and those of ranks, the best one, the model.
#include <fmt/format.h>

#include <chrono>
#include <memory>
#include <utility>

#include "heddle/core/base/error.h"
#include "heddle/core/base/seconds_since.h"
#include "heddle/train/shard_save.h"
#include "heddle/train/trainer_state.h"

namespace heddle::train {

// The window is closed, so every loss so far was finite.
void Trainer::State::save_checkpoint() {
  if (saved_at == step || (folder == nullptr && shared_folder.empty() && !parted)) return;
  saved_at = step;
  const auto start = std::chrono::steady_clock::now();
  save_beside();
  if (!config.checkpoint.beside) wait_for_files();
  save_stall = seconds_since(start);
  if (folder == nullptr) return;
  tell([&](Callback& c) { c.on_checkpoint(self, checkpoint_path); });
}

void Trainer::State::save_beside() {
  const AroundWriting shards = begin_shards();
  const Checkpoint checkpoint = whole_checkpoint();
  if (folder == nullptr) {
    if (shards.before)
      part_writing.start([shards] {
        (void)shards.before();
        shards.after(nullptr);
      });
    return;
  }
  const std::optional<double> score = evaluated_at == step ? std::optional(evaluation.loss) : std::nullopt;
  checkpoint_path = checkpoints->save(step, checkpoint, score, shards);
}

// The first rank has it; where ranks share parameters, or have parts of the model, all make it.
Checkpoint Trainer::State::whole_checkpoint() {
  ShardedParameters* const shared = shared_parameters();
  const WholeParameters whole = shared != nullptr ? shared->gathered(folder != nullptr) : WholeParameters();
  if (folder == nullptr && !parted) return {};
  RunState state = run_state();
  state.whole = shared != nullptr ? &whole : nullptr;
  Checkpoint checkpoint = checkpoint_of(state, config, {step, feed.position()});
  if (parted) checkpoint.tensors = parted->joined(checkpoint.tensors);
  return checkpoint;
}

// Of ranks that share states. None begins before all, and the first rank's removal of old files, are over.
AroundWriting Trainer::State::begin_shards() {
  if (shared_folder.empty()) return {};
  wait_for_files();
  const distributed::Group owners = replicas.group_of_owners("checkpoints");
  if (!replicas.first_owners()) return {};  // the others have the same
  const auto save =
      std::make_shared<ShardSave>(owners, train::checkpoint_path(shared_folder, step), step, optimizers.shard_states());
  return {.before = [save] { return save->write_part(); },
          .after = [save](std::exception_ptr failure) { save->end(std::move(failure)); }};
}

void Trainer::State::wait_for_files() {
  if (checkpoints) checkpoints->wait();
  part_writing.wait();
}

// Ranks that share parameters all read the file that the first one chooses.
std::optional<LatestCheckpoint> Trainer::State::best_checkpoint() {
  std::optional<LatestCheckpoint> best;
  if (folder != nullptr) best = load_best_checkpoint(folder->checkpoints(), &checkpoint_device());
  if (shared_parameters() == nullptr) return best;
  const auto after = static_cast<int64_t>(replicas.of_first(best ? static_cast<uint64_t>(best->step) + 1 : 0));
  if (after == 0 || best) return best;
  const std::string path = train::checkpoint_path(shared_folder, after - 1);
  return LatestCheckpoint{after - 1, path, load_checkpoint(path, &checkpoint_device(), States::left_out), {}};
}

// The weights, and the evaluation, of the best checkpoint. The last one is on the disk before: who goes on with the
// run goes on from there.
void Trainer::State::take_best() {
  save_checkpoint();
  wait_for_files();
  const std::optional<LatestCheckpoint> best = best_checkpoint();
  if (!best || best->step == step) return;
  restore_weights(best->checkpoint, run_state());
  model_step = best->step;
  evaluation = measured([&] { return task.evaluate(config.data.limit_test); });
}

void Trainer::State::save_model(const WholeParameters& whole) {
  Metadata metadata = task.metadata();
  metadata["recipe"] = config.run.recipe;
  metadata["config"] = config.str();
  EvaluationScope scope(task.model(), average);
  const ShardedParameters* const shared = shared_parameters();
  const TensorMap weights = parted              ? parted->joined_weights()
                            : shared != nullptr ? shared->evaluated(whole)
                                                : task.model().state_dict();
  if (folder != nullptr) {
    train::save_checkpoint(self.model_path(), {weights, metadata});
    if (!is_interrupted()) task.write_beside(folder->path());
  }
  scope.end();
}

std::vector<std::string> Trainer::State::resume(const std::string& path) {
  std::optional<LatestCheckpoint> latest =
      load_latest_checkpoint(RunFolder::checkpoints_of(path), &checkpoint_device(), place_of_states());
  if (latest && parted) latest->checkpoint.tensors = parted->own_of(latest->checkpoint.tensors);
  if (!latest) return {fmt::format("[train] {} holds no checkpoint yet: the run begins again", path)};
  const Place place = restore(latest->checkpoint, latest->path, run_state(), config);
  step = place.step;
  stream_begin = place.stream;
  if (step > length.steps)
    throw ValueError(
        fmt::format("[train] {} is at step {}, this run ends at step {}", latest->path, step, length.steps));
  saved_at = step;
  checkpoint_path = latest->path;
  for (std::string& broken : latest->broken) broken += fmt::format("; going on from {}", latest->path);
  return latest->broken;
}

}  // namespace heddle::train
