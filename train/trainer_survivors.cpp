// What a run does when a rank was lost: train/survivor_state.h.
#include <iterator>
#include <utility>

#include "heddle/core/functions/random/generator.h"
#include "heddle/train/trainer_state.h"

namespace heddle::train {

std::optional<SurvivorState> Trainer::State::survivor_state() {
  if (!shared_folder.empty()) return std::nullopt;
  std::vector<StepRecord> records = std::exchange(untold, {});
  if (training_step.open() > 0) {
    std::vector<StepRecord> more = window.close(training_step.take(), config, step, length.steps_per_epoch).records;
    std::ranges::move(more, std::back_inserter(records));
  }
  // An update that was not taken draws its random numbers again, and the first rank's seed is the run's.
  if (begun) default_generator().offset = begun->random_offset;
  if (first_seed) default_generator().seed = *first_seed;
  const Place place{step, begun ? begun->position : feed.position()};
  return on_host(checkpoint_of(run_state(), config, place), step, std::move(records));
}

void Trainer::State::go_on(const SurvivorState& state) {
  const Place place = restore(to_device(state, device), "the memory of a rank that is left", run_state(), config);
  step = place.step;
  stream_begin = place.stream;
  untold = state.untold;
  if (folder == nullptr) return;
  const std::vector<int64_t> steps = checkpoint_steps(folder->checkpoints());
  if (!steps.empty()) checkpoint_path = train::checkpoint_path(folder->checkpoints(), steps.back());
}

void Trainer::State::tell_of_survival() {
  if (lost) tell([&](Callback& c) { c.on_lost_ranks(self, *lost); });
  const std::vector<StepRecord> records = std::exchange(untold, {});
  if (!records.empty()) tell([&](Callback& c) { c.on_steps(self, records); });
}

}  // namespace heddle::train
