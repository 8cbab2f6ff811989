// The model that `heddle finetune` begins with, as a run of its configuration holds it.
//
// Errors: ValueError "[finetune] ..." of options that cannot be meant, IoError of the model. Thread safety: none.
#pragma once

#include <string>

#include "heddle/core/device/context.h"
#include "heddle/train/config.h"
#include "heddle/train/recipes/base_model.h"

namespace heddle::train {

// lora, qlora, dora or full.
const std::string& finetune_method(const Config& config);

// Its weights are packed or in floating point, its blocks kept or computed again, as the configuration says.
// `with_text`: with its tokenizer and chat template, which a plan does without.
BaseModel load_finetune_base(const Config& config, DeviceContext& device, bool with_text = true);

}  // namespace heddle::train
