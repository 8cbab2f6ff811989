#include "heddle/train/run_length.h"

#include <fmt/format.h>

#include <algorithm>

#include "heddle/core/base/error.h"

namespace heddle::train {
namespace {

int64_t checked_steps_per_epoch(const Feed& feed, const TrainingData& data, const Config& c) {
  if (data.stream) {
    if (c.training.steps == 0)
      throw ValueError(fmt::format(
          "[train] {} is a stream, whose length nobody knows: training.steps must say how many updates the run has",
          data.name));
    return c.training.steps;
  }
  return feed.batches_per_epoch();
}

int64_t steps_of_run(const Config& c, int64_t steps_per_epoch) {
  int64_t steps = c.training.steps;
  if (steps > 0 || !__builtin_mul_overflow(c.training.epochs, steps_per_epoch, &steps)) return steps;
  throw ValueError(fmt::format("[train] {} epochs of {} updates are too many", c.training.epochs, steps_per_epoch));
}

int64_t evaluation_interval(const Config& c, int64_t steps_per_epoch) {
  if (c.log.eval_every > 0) return c.log.eval_every;
  return c.training.steps > 0 ? std::max<int64_t>(1, c.training.steps / 10) : steps_per_epoch;
}

}  // namespace

RunLength::RunLength(const Feed& feed, const TrainingData& data, const Config& config)
    : steps_per_epoch(checked_steps_per_epoch(feed, data, config)),
      steps(steps_of_run(config, steps_per_epoch)),
      eval_every(evaluation_interval(config, steps_per_epoch)) {}

}  // namespace heddle::train
