// Stages: which blocks of a model each rank along "pp" has.
//
// Purpose: blocks follow each other in places, place c * stages + s being chunk c of stage s (train/pipeline.h), so
// that the place with the most operations has as few as can be: a block's products and attention, of the last place
// those of the vocabulary as well, which of gpt2 are those of four blocks. Errors: ValueError for fewer blocks than
// places. Thread safety: plain values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "heddle/distributed/forecast/pipeline_order.h"
#include "heddle/nn/models/gpt.h"
#include "heddle/nn/models/gpt_parts.h"
#include "heddle/train/config.h"

namespace heddle::train {

struct Stages {
  nn::CutPlace stage;          // ranks along "pp", and this one's place
  int64_t chunks = 1;          // of each stage
  std::vector<size_t> begins;  // of places, the first block of each, and behind them how many blocks there are

  int64_t places() const { return stage.ranks * chunks; }
  int64_t place_of(int64_t chunk) const { return chunk * stage.ranks + stage.place; }
  bool is_own(int64_t place) const { return place % stage.ranks == stage.place; }
  bool is_last(int64_t place) const { return place + 1 == places(); }
  int rank_of(int64_t place) const { return static_cast<int>(place % stage.ranks); }
  nn::BlockRange at(int64_t place) const;
  std::vector<nn::BlockRange> own() const;
};

// As the options say. ValueError besides: a schedule or microbatches without stages.
Stages stages_of(const Config& config, const nn::CutPlace& stage, const nn::GptOptions& model);
distributed::PipelineSchedule schedule_of(const Config& config);

}  // namespace heddle::train
