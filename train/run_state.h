// RunState: what a checkpoint holds of a run, and what a resumed one takes from it.
//
// Invariants: tensors are named "model.<path>", "optimizer.<index>.<name>" and "average.<index>"; position, random
// generator, schedule and callbacks stand in the metadata, with what identifies the run: recipe, number of examples,
// seed, batch, accumulation, optimizer and average of a resumed run must agree with it. Errors: IoError, and ValueError
// that names the option that differs. Nothing is changed by a file that does not fit. Thread safety: none.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "heddle/nn/average.h"
#include "heddle/train/callback.h"
#include "heddle/train/checkpoint.h"
#include "heddle/train/config.h"
#include "heddle/train/optimizers.h"
#include "heddle/train/sharded_parameters.h"
#include "heddle/train/task.h"

namespace heddle::train {

struct RunState {
  Task& task;
  Optimizers& optimizers;
  nn::ExponentialAverage* average;  // may be null
  nn::Plateau* plateau;             // may be null
  const std::vector<std::shared_ptr<Callback>>& callbacks;
  ShardedParameters* shared = nullptr;     // who has the model's parameters, if not the model
  const WholeParameters* whole = nullptr;  // what checkpoint_of() says of them then
};

// Where a run is: updates done, and the next batch where the data is a stream (of other data it follows from the step).
struct Place {
  int64_t step = 0;
  data::Loader::Position stream = {};
};

// What a checkpoint calls a parameter, by its path and its place among the model's, and its average.
std::array<std::string, 2> names_of_parameter(const std::string& path, size_t place);

Checkpoint checkpoint_of(const RunState& state, const Config& config, const Place& place);
// Puts everything where it was; returns the place. `path` is what errors name.
Place restore(const Checkpoint& checkpoint, const std::string& path, const RunState& state, const Config& config);

// Of those the weights alone, and their average; the run's place stays as it is.
void restore_weights(const Checkpoint& checkpoint, const RunState& state);

// The model's tensors in a file that a run wrote: a model file, or a checkpoint.
nn::StateDict model_state(const Checkpoint& file);

}  // namespace heddle::train
