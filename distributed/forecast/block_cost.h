// BlockCost: what one microbatch of a block costs a rank that has its share of tensor and context parallelism.
//
// Purpose: seconds of the three passes, bytes sent, bytes kept. Tensor parallelism sums results of rows forward and
// gradients of columns' inputs backward (Shoeybi et al. 2019, figure 3), as reduce-scatter and all-gather under
// sequence parallelism (Korthikanti et al. 2022, section 4.2.2; what was gathered is kept, and not gathered again as it
// is there), and nothing runs beside these sums; context parallelism gathers keys and values (Dubey et al. 2024, arXiv
// 2407.21783, section 3.3.2), and scatters the sums of their gradients. Thread safety: pure.
#pragma once

#include "heddle/distributed/forecast/layers.h"
#include "heddle/distributed/forecast/links.h"

namespace heddle::distributed {

// A rank's share of a step.
struct RankShare {
  int64_t examples = 1;  // of a microbatch
  int64_t tp = 1, cp = 1;
  Level tp_level = {}, cp_level = {};
};

struct BlockCost {
  double forward = 0, input_gradient = 0, weight_gradient = 0;  // seconds
  double computing = 0;                                         // of the forward pass, without what is sent
  double bytes_sent = 0;                                        // by tp and cp, of all passes
  double kept = 0;                                              // bytes from forward to backward
  double working = 0;   // bytes more while a recomputed block is in its backward pass
  double elements = 0;  // of parameters
  double shared = 0;    // of those, what every rank of tp has, whose gradients they sum under sequence parallelism
};

BlockCost cost_of(const StepLayers& step, const Block& block, const RankShare& share, const Machine& machine,
                  bool in_pipeline);
// As a stage that computes the block again has it; sums of the forward pass are kept.
void recompute_in_stage(BlockCost& cost, const StepLayers& step, const Block& block, const RankShare& share);

// Bytes of a microbatch's rows that one rank of a split group has of what goes from block to block.
double rank_rows(const StepLayers& step, double bytes, const RankShare& share);

}  // namespace heddle::distributed
