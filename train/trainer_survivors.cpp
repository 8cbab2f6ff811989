// What a run does for the case that a rank is lost, and when one was: train/survivor_state.h, train/buddy_copies.h.
#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "heddle/core/functions/random/generator.h"
#include "heddle/train/trainer_state.h"

namespace heddle::train {

// ---- copies of what this rank alone has

// Of parameters, and of their averages, each rank copies what it owns.
void Trainer::State::begin_copies() {
  if (!replicas.world().survives() || !optimizers.keeps_shards()) return;
  replicas.require_equal("--buddy-every", std::to_string(copies_every));
  if (copies_every == 0) return;
  buddies.emplace(replicas);
  const nn::NamedTensors parameters = task.model().named_parameters();
  const auto cut = [&](size_t i, const BuddyCopies::Cut& owned) {
    for (const std::string& name : names_of_parameter(parameters[i].first, i)) cuts[name] = owned;
  };
  for (size_t i = 0; i < parameters.size(); ++i) cut(i, {});
  for (const nn::Shard& shard : training_step.shards()) cut(shard.parameter, {shard.begin, shard.end});
  keep_copies(stream_begin);
}

// `next`: the batch of the next update.
void Trainer::State::keep_copies(const data::Loader::Position& next) {
  Checkpoint checkpoint = checkpoint_of(run_state(), config, {step, next});
  checkpoint.metadata["random.seed"] = std::to_string(*first_seed);
  buddies->keep(step, checkpoint, cuts, optimizers.shard_states());
}

void Trainer::State::settle_copies() {
  if (!buddies) return;
  buddies->settle();
  gone_on_from.reset();
}

// ---- behind a loss

// Of updates that were taken.
std::vector<StepRecord> Trainer::State::all_untold() {
  std::vector<StepRecord> records = std::exchange(untold, {});
  if (training_step.open() > 0) {
    std::vector<StepRecord> more = window.close(training_step.take(), config, step, length.steps_per_epoch).records;
    std::ranges::move(more, std::back_inserter(records));
  }
  return records;
}

Remains Trainer::State::remains() {
  Remains left{.state = std::exchange(gone_on_from, std::nullopt), .told = told};
  if (left.state) return left;
  const std::vector<StepRecord> records = all_untold();
  if (optimizers.keeps_shards()) {
    if (buddies) left.copies = buddies->take();
    for (BuddyCopy& copy : left.copies)
      std::ranges::copy_if(records, std::back_inserter(copy.rest.untold),
                           [&](const StepRecord& record) { return record.step <= copy.step; });
    return left;
  }
  // An update that was not taken draws its random numbers again, and the first rank's seed is the run's.
  if (begun) default_generator().offset = begun->random_offset;
  if (first_seed) default_generator().seed = *first_seed;
  const Place place{step, begun ? begun->position : feed.position()};
  left.state = on_host(checkpoint_of(run_state(), config, place), step, records);
  return left;
}

// Parameters that are frozen, and their averages, are in no copy, and as they were.
void Trainer::State::add_frozen(SurvivorState& state) {
  const TensorMap tensors = checkpoint_of(run_state(), config, {}).tensors;
  const nn::NamedTensors parameters = task.model().named_parameters();
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (parameters[i].second.requires_grad()) continue;
    for (const std::string& name : names_of_parameter(parameters[i].first, i)) {
      const auto found = tensors.find(name);
      if (found == tensors.end() || state.tensors.contains(name)) continue;
      const Tensor& tensor = found->second;
      state.tensors[name] = {tensor.dtype(), tensor.shape(), tensor.to_bytes()};
    }
  }
}

void Trainer::State::go_on(SurvivorState state) {
  add_frozen(state);
  const Checkpoint checkpoint = to_device(state, device, place_of_states());
  const Place place = restore(checkpoint, "the memory of ranks that are left", run_state(), config);
  step = place.step;
  stream_begin = place.stream;
  untold = state.untold;
  if (optimizers.keeps_shards()) gone_on_from = std::move(state);
  if (folder == nullptr) return;
  const std::vector<int64_t> steps = checkpoint_steps(folder->checkpoints());
  if (!steps.empty()) checkpoint_path = train::checkpoint_path(folder->checkpoints(), steps.back());
}

void Trainer::State::tell_of_survival() {
  if (lost) {
    lost->taken_back = std::max<int64_t>(0, lost->told - step);
    tell([&](Callback& c) { c.on_lost_ranks(self, *lost); });
  }
  told = step;
  if (gone_on_from) gone_on_from->untold.clear();
  tell_of_steps(std::exchange(untold, {}));
}

void Trainer::State::tell_of_steps(const std::vector<StepRecord>& records) {
  if (records.empty()) return;
  told = records.back().step;
  tell([&](Callback& c) { c.on_steps(self, records); });
}

}  // namespace heddle::train
