// Checkpoints of a training run: parameters, optimizer state and position in one safetensors file.
//
// Invariants: tensors are named "model.<path>" and "optimizer.<index>.<name>"; what identifies the run stands in the
// metadata, and a resumed run must agree with it. Errors: IoError, and ValueError that names the option that differs.
// Thread safety: none.
#pragma once

#include <cstdint>
#include <string>

#include "nn/nn.h"

namespace heddle::tools {

struct CheckpointInfo {
  std::string recipe;
  int64_t step = 0;
  uint64_t seed = 0;
  int64_t batch = 0;
  std::string optimizer;
};

void save_checkpoint(const std::string& path, const CheckpointInfo& info, const nn::Module& model,
                     const nn::Optimizer& optimizer);
// Fills model and optimizer; returns the step. `info` is what the file must have been made with, its step aside.
int64_t load_checkpoint(const std::string& path, const CheckpointInfo& info, nn::Module& model,
                        nn::Optimizer& optimizer, DeviceContext& device);

// The parameters in a file written by train: a model file, or a checkpoint.
nn::StateDict load_model_state(const std::string& path, DeviceContext& device);

}  // namespace heddle::tools
