// What a fine-tuning run needs of a device's memory, before it begins.
//
//   const train::FinetuneNeed need = train::finetune_need(config, device);      // of config.model "base"
//
// Purpose: the run itself, its evaluation, two of its steps with an evaluation and a sample between them, on a device
// that stands in for the one that is meant and holds nothing (core/device/blank_device.h); what its allocator counts is
// the answer. Of the model only the front of its files is read; of the data nothing: rows are full, as many are held
// out as an evaluation takes at once, and a sample's question is half a row.
// Invariants: nothing is computed, and `device` is only asked for its capabilities; the process's random numbers begin
// anew at the run's seed. Errors: what the run would throw: ValueError of options, IoError of the model, BudgetError,
// LimitError where a tensor is too large for the device. Thread safety: none.
#pragma once

#include <cstdint>
#include <string>

#include "heddle/core/device/context.h"
#include "heddle/train/config.h"

namespace heddle::train {

struct FinetuneNeed {
  uint64_t weights = 0;   // of the base, on the device
  uint64_t mapped = 0;    // of the base, read where its file is mapped: they cost the device nothing
  uint64_t peak = 0;      // most that is held at once, the weights included
  bool is_whole = false;  // false: the weights alone were above the limit, and nothing else was looked at
};

// `limit`: no step is planned where the weights alone need more; 0: whatever they need. The device must take kernels.
FinetuneNeed finetune_need(const Config& config, DeviceContext& device, uint64_t limit = 0);

// What a run may hold of the device's memory: nine tenths, the rest is the driver's and the screen's; 0 where it does
// not say how much there is.
uint64_t usable_memory(uint64_t device_bytes);

// "1.50 GiB", "640 MiB", "12 KiB".
std::string memory_text(uint64_t bytes);

}  // namespace heddle::train
