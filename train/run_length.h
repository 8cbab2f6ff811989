// RunLength: how many updates a run has, and how often it evaluates.
//
// Errors: ValueError for a stream without a number of updates, and for more updates than 64 bits count. Thread safety:
// plain value.
#pragma once

#include <cstdint>

#include "heddle/train/config.h"
#include "heddle/train/feed.h"
#include "heddle/train/task.h"

namespace heddle::train {

struct RunLength {
  RunLength(const Feed& feed, const TrainingData& data, const Config& config);

  int64_t steps_per_epoch;  // of a stream: those of the run
  int64_t steps;            // of the run
  int64_t eval_every;       // updates between two evaluations
};

}  // namespace heddle::train
