// Small networks and how they are trained for ten steps: what `heddle doctor` compares between devices and the tests
// with PyTorch's losses (tools/parity/make_losses.py).
//
// Purpose: one table. Invariants: weights and batches are the same bits on every device (checks/formula.h). Thread
// safety: pure but for memory.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "checks/formula.h"

namespace heddle::checks {

struct Network {
  const char* name;
  std::function<std::unique_ptr<nn::Module>(DeviceContext& device)> model;
  std::function<formula::Batch(uint32_t step, DeviceContext& device)> batch;
  std::function<std::unique_ptr<nn::Optimizer>(const std::vector<Tensor>& parameters)> optimizer;
};
const std::vector<Network>& networks();

// The loss of each of ten steps on that device.
std::vector<double> training_losses(const Network& network, DeviceContext& device);

}  // namespace heddle::checks
