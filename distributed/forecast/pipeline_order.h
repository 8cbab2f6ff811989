// PipelineOrder: a pipeline's schedule as a table, for each stage its actions in the order in which it takes them.
//
// Purpose: an action is the forward pass (F) of a microbatch through a chunk of the stage's layers, its backward pass,
// or one half of that: the gradient of its input (B), that of its weights (W). Schedules: GPipe (Huang et al. 2019,
// arXiv 1811.06965); 1F1B (Narayanan et al. 2019, "PipeDream"; with flushes: arXiv 2104.04473, section 2.2.1);
// interleaved 1F1B, whose stages have several chunks (the same, 2.2.2); ZB1P, which puts W where a stage would wait (Qi
// et al. 2023, arXiv 2401.10241, ZB-H1), and ZB2P, which is for devices where two halves take longer than the whole: it
// holds up to 2p microbatches of p stages, as ZB-2p there, and has halves at the end alone. Invariants: every stage has
// each pass of its chunks once; GPipe and both 1F1B have whole backward passes. Errors: ValueError for a schedule that
// is none, and for microbatches that the interleaved one cannot deal out. Thread safety: plain values.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace heddle::distributed {

enum class PipelineSchedule : uint8_t { gpipe, one_forward_one_backward, interleaved, zero_bubble, zero_bubble_ahead };

// "gpipe", "1f1b", "interleaved", "zb1p", "zb2p". ValueError for others.
PipelineSchedule parse_schedule(std::string_view name);
std::string_view name_of(PipelineSchedule schedule);

enum class Pass : uint8_t { forward, backward, input_gradient, weight_gradient };

struct Action {
  Pass pass;
  int64_t microbatch;
  int64_t chunk;  // of the stage; chunk c of stage s has the layers of place c * stages + s
};

struct PipelineSizes {
  int64_t stages = 1, microbatches = 1, chunks = 1;
};

// By stage. ValueError for sizes below 1, chunks of another schedule than the interleaved one, and, for that one,
// microbatches that are no multiple of the stages.
std::vector<std::vector<Action>> pipeline_order(PipelineSchedule schedule, const PipelineSizes& sizes);

}  // namespace heddle::distributed
