// The ways to fine-tune a model on a device, with what each needs of its memory, and the best of those that fit.
//
//   const train::FinetunePlan plan = train::plan_finetune(config, device, uint64_t{8} << 30);
//
// Purpose: `heddle plan finetune`. What the configuration was given (Config::given()) stays; where it leaves it open
// the methods, blocks computed again or kept, and smaller batches that are accumulated to the same update are compared,
// each as finetune_need() predicts it. Invariants: choices are in the order in which they were looked at; the best is
// the first that fits of: the batch that is asked for before smaller ones, kept before computed again, lora before
// qlora (of a folder in NF4), states of the optimizer in f32 before 8 bits; the last resorts are a memory budget, and
// smaller updates where the batch is left open. A smaller batch that the larger one shows to be too much is not looked
// at. Where none fits, shorter rows are. Errors: ValueError where nobody says how much memory there is, those of
// finetune_need() that concern every choice. Thread safety: none.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "heddle/core/device/context.h"
#include "heddle/train/config.h"
#include "heddle/train/recipes/finetune_need.h"

namespace heddle::train {

struct FinetuneChoice {
  Config config;        // a run of it
  FinetuneNeed need;    // of a choice that is refused: what is known of it
  std::string refusal;  // why it cannot be, whatever the memory; or empty
  bool fits = false;
  bool is_never = false;  // whatever the batch and the length: by its weights alone, or by what they are
};

struct FinetunePlan {
  uint64_t memory = 0, limit = 0;  // of the device, and what a run may hold of it
  std::vector<FinetuneChoice> choices;
  std::optional<size_t> best;
  std::optional<FinetuneChoice> shorter;  // without a best: the same with shorter rows, which fits
  // Without a best: the least that any choice needs; none where the device refuses all of them.
  std::optional<uint64_t> least() const;
};

// `memory`: bytes of the device; 0: what it says of itself.
FinetunePlan plan_finetune(const Config& config, DeviceContext& device, uint64_t memory = 0);

}  // namespace heddle::train
