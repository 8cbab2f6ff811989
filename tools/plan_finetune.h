// heddle plan finetune: what fine-tuning a model needs of a device's memory, and with which choices it fits.
#pragma once

#include "tools/cli.h"

namespace heddle::tools {

// Below `heddle plan`.
CLI::App* add_plan_finetune(CLI::App& plan);

}  // namespace heddle::tools
