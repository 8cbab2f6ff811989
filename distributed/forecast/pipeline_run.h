// A pipeline's step, event by event: when each stage computes, how long it waits, how many microbatches it holds.
//
// Purpose: bubble and live activations of a schedule (pipeline_order.h) with costs of any kind. A stage takes its
// actions in their order, each as soon as what it needs is there: F the result of the chunk before, B the gradient of
// the chunk behind and its own F, as a whole backward pass does, W its own B; what comes from another stage is a
// message later. Invariants: every action runs once. Errors: std::logic_error for an order that waits for itself.
// Thread safety: pure.
#pragma once

#include <vector>

#include "heddle/distributed/forecast/pipeline_order.h"

namespace heddle::distributed {

// Of one chunk, one microbatch.
struct ChunkCost {
  double forward = 0, input_gradient = 0, weight_gradient = 0;  // seconds
  double message = 0, gradient_message = 0;  // seconds until its result, the gradient of its input, is where it goes
  double kept = 0;                           // bytes from its F to its W
};

struct StageRun {
  double busy = 0, end = 0;           // seconds; the last action's end
  double kept = 0;                    // most bytes at a time
  int64_t live = 0;                   // most pairs of microbatch and chunk at a time
  std::vector<double> gradients_end;  // by chunk, when its weights' gradients are all there
};

struct PipelineRun {
  std::vector<StageRun> stages;
  double seconds = 0;  // until the last stage has ended
  double bubble = 0;   // share of the stages' time in which they wait
};

// `costs`: by stage, then by chunk.
PipelineRun run_pipeline(const std::vector<std::vector<Action>>& order, const PipelineSizes& sizes,
                         const std::vector<std::vector<ChunkCost>>& costs);

}  // namespace heddle::distributed
