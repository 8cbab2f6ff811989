// How names of states begin that are not the first optimizer's. Internal to train/optimizers.h.
#pragma once

#include <string_view>

namespace heddle::train {

inline constexpr std::string_view second_prefix = "rest.", scale_prefix = "loss_scale.";

}  // namespace heddle::train
