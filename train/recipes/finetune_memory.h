// How a fine-tuning run fits the memory of its device: whether blocks are computed again for gradients.
//
// Purpose: model.recompute is on, off or auto; model.offload asks for on. auto becomes off where the run fits without
// (it is faster), else on, else on under a memory budget of what there is; the answer stands in the configuration, so
// that a run that goes on does what it began with. What there is: training.memory_budget, or the device's usable
// memory. Errors: ValueError of another word, BudgetError "[finetune] ..." where even the least is too much: how much
// is missing, and what would help. Thread safety: none.
#pragma once

#include <string>
#include <vector>

#include "heddle/core/device/context.h"
#include "heddle/train/config.h"

namespace heddle::train {

// Of a settled configuration; ValueError for words that it does not know.
bool recomputes(const Config& config);

// Settles model.recompute, and training.memory_budget where it must be; what was chosen, in a line. A device that does
// not say what it has, or takes no kernels, keeps values.
std::vector<std::string> settle_memory(Config& config, DeviceContext& device);

}  // namespace heddle::train
