// MeshForecast: memory, bytes, time, bubble and use of the peak of a training step over a mesh, without running it.
//
//   const MeshForecast made = forecast(transformer_layers(config), known_cluster("dgx-h100"), {.mesh =
//   "dp=64,pp=16,tp=8",
//                                      .batch = 2048, .sharding = Sharding::zero2});
//
// Purpose: `heddle plan --mesh`. A rank differs from another by its stage alone. A step is the run of its pipeline
// (pipeline_run.h), sums of gradients beside or behind it (gradient_sync.h), and the update, which moves states,
// gradients and parameters once. Bytes of memory: of a parameter what StepLayers says, divided as the sharding says;
// activations as many as the run holds at a time. Use of the peak (MFU) counts the model's operations alone, not what
// is computed again (Chowdhery et al. 2022, arXiv 2204.02311, appendix B). Invariants: pure; no dependence on time or
// machine. Errors: ValueError for a mesh that the step cannot be shared over, one line each. Thread safety: pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "heddle/distributed/forecast/cluster.h"
#include "heddle/distributed/forecast/gradient_sync.h"
#include "heddle/distributed/forecast/layers.h"
#include "heddle/distributed/forecast/pipeline_order.h"

namespace heddle::distributed {

struct ForecastOptions {
  std::string mesh;          // axes dp, tp, pp and cp; neighbouring ranks along the last one
  int64_t batch = 0;         // examples of a step, on all ranks together
  int64_t microbatches = 0;  // 0: of one example each where there is a pipeline, otherwise one
  Sharding sharding = Sharding::none;
  PipelineSchedule schedule = PipelineSchedule::one_forward_one_backward;
  int64_t chunks = 1;
  bool overlap = true;  // sums of gradients run beside the backward pass
};

struct MemoryForecast {
  double parameters = 0, gradients = 0, optimizer = 0, activations = 0, peak = 0;  // bytes
};

struct RankForecast {
  int64_t stage = 0;
  int64_t ranks = 1;  // that are alike
  MemoryForecast memory = {};
  double bytes_per_step = 0;  // sent
  int64_t live = 0;           // microbatches held at a time, by chunk
  double bubble = 0;          // share of the pipeline's time in which it waits
  // Share of the time of sums of gradients, and of gathers of shards, in which it computes; 0 without any.
  double communication_hidden = 0;
};

struct MeshForecast {
  std::string mesh;
  int64_t ranks = 1, microbatches = 1, microbatch = 1;
  std::vector<RankForecast> stages = {};
  double step_seconds = 0, bubble = 0, mfu = 0;
  double hardware_flops = 0;  // a second of each rank, with what is computed again
  bool rehearsed = false;     // bytes and peaks are training's own (tools/rehearsal.h), not those of formulas

  double peak() const;
};

MeshForecast forecast(const StepLayers& step, const Cluster& cluster, const ForecastOptions& options);

}  // namespace heddle::distributed
