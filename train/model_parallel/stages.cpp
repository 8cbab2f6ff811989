#include "heddle/train/model_parallel/stages.h"

#include <fmt/format.h>

#include "heddle/core/base/error.h"
#include "heddle/distributed/forecast/partition.h"

namespace heddle::train {
namespace {

// Multiplications that a token takes, by block: four widths squared of attention and eight of the MLP, and its products
// with keys and values; behind the last block those with the vocabulary.
std::vector<double> costs_of(const nn::GptOptions& model) {
  const auto width = static_cast<double>(model.width), context = static_cast<double>(model.context);
  std::vector<double> costs(static_cast<size_t>(model.layers), 12 * width * width + 2 * context * width);
  costs.back() += width * static_cast<double>(model.vocabulary);
  return costs;
}

}  // namespace

nn::BlockRange Stages::at(int64_t place) const {
  const auto number = static_cast<size_t>(place);
  return {static_cast<int64_t>(begins.at(number)), static_cast<int64_t>(begins.at(number + 1))};
}

std::vector<nn::BlockRange> Stages::own() const {
  std::vector<nn::BlockRange> ranges;
  for (int64_t chunk = 0; chunk < chunks; ++chunk) ranges.push_back(at(place_of(chunk)));
  return ranges;
}

distributed::PipelineSchedule schedule_of(const Config& c) { return distributed::parse_schedule(c.training.pipeline); }

Stages stages_of(const Config& c, const nn::CutPlace& stage, const nn::GptOptions& model) {
  const bool interleaved = schedule_of(c) == distributed::PipelineSchedule::interleaved;
  Stages stages{.stage = stage, .chunks = interleaved && stage.ranks > 1 ? c.training.chunks : 1, .begins = {}};
  if (model.layers < stages.places())
    throw ValueError(fmt::format("[mesh] pp={}: {} blocks are too few for {} stages{}", stage.ranks, model.layers,
                                 stage.ranks, interleaved ? fmt::format(" of {} chunks", stages.chunks) : ""));
  stages.begins = distributed::partition_blocks(costs_of(model), static_cast<size_t>(stages.places()));
  return stages;
}

}  // namespace heddle::train
