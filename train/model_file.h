// ModelFile: a trained model on disk: its weights, and the options that make its network and data again.
//
// Errors: IoError for files that no run wrote. Thread safety: plain values.
#pragma once

#include <string>

#include "heddle/nn/module.h"
#include "heddle/train/checkpoint.h"
#include "heddle/train/config.h"

namespace heddle::train {

struct ModelFile {
  std::string path;
  Config config;
  Metadata metadata;
  nn::StateDict state;
};

// A model file or a checkpoint; of a run's folder its model.safetensors, or its newest whole checkpoint while there is
// none.
ModelFile read_model_file(const std::string& path, DeviceContext& device);

}  // namespace heddle::train
