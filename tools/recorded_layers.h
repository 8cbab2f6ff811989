// A training step as layers with costs, read off the graph that it records.
//
// Purpose: `heddle plan --mesh`. A layer is a module (nn/summary.h), a block what stands beside others at the top:
// "wte", "h.3", "layer2.0". What is computed outside of modules' parts, as a tied last projection, is the last block's.
// Invariants: nothing is computed; recording takes place on a null device. Errors: ValueError for a text that is no
// training step. Thread safety: none.
#pragma once

#include <string>

#include "heddle/distributed/forecast/layers.h"

namespace heddle::tools {

struct RecordedLayers {
  distributed::StepLayers layers;
  int64_t batch = 0, parts = 1;
  bool in_parts = false;  // training can divide the model along tp, pp and cp (nn/models/gpt_parts.h)
};
RecordedLayers record_layers(const std::string& step);

}  // namespace heddle::tools
