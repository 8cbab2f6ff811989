#include "heddle/train/model_parallel/stages.h"

#include <fmt/format.h>

#include "heddle/core/base/error.h"

namespace heddle::train {

std::vector<nn::BlockRange> Stages::own() const {
  std::vector<nn::BlockRange> ranges;
  for (int64_t chunk = 0; chunk < chunks; ++chunk) ranges.push_back(at(place_of(chunk)));
  return ranges;
}

distributed::PipelineSchedule schedule_of(const Config& c) { return distributed::parse_schedule(c.training.pipeline); }

Stages stages_of(const Config& c, const nn::CutPlace& stage, int64_t blocks) {
  const bool interleaved = schedule_of(c) == distributed::PipelineSchedule::interleaved;
  const Stages stages{.stage = stage, .chunks = interleaved ? c.training.chunks : 1, .blocks = blocks};
  if (stage.ranks > 1 && blocks < stages.places()) {
    throw ValueError(fmt::format("[mesh] pp={}: {} blocks are too few for {} stages{}", stage.ranks, blocks,
                                 stage.ranks, interleaved ? fmt::format(" of {} chunks", stages.chunks) : ""));
  }
  return stages;
}

}  // namespace heddle::train
