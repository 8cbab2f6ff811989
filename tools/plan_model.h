// The model of `heddle plan --mesh`: a training step or a transformer's configuration, as layers with costs.
#pragma once

#include <string>

#include "heddle/distributed/forecast/layers.h"

namespace heddle::tools {

struct PlannedModel {
  distributed::StepLayers layers;
  int64_t batch = 0, parts = 1;  // of the training step
  std::string step;              // its text; empty for a configuration
  bool in_parts = false;         // training can divide its model along tp, pp and cp
};

// FILE.toml is a transformer (docs/distributed.md), FILE.json the configuration of a folder of Hugging Face, and
// another text a training step (bench/training_step.h), recorded on a blank device. Errors: those of what is read.
PlannedModel read_planned_model(const std::string& text);

}  // namespace heddle::tools
