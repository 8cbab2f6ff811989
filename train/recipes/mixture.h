// Options of language models whose MLPs are mixtures of experts, and what their routers add to the loss.
//
// Purpose: the keys of [model] that the recipes of Gpt share (nn/mixture_of_experts.h). Invariants: without experts the
// other keys have their initial values. Errors: ValueError. Thread safety: pure functions of values.
#pragma once

#include <vector>

#include "heddle/nn/models/gpt.h"
#include "heddle/train/config.h"

namespace heddle::train {

// Keys of [model]; appended to those of a recipe.
std::vector<ModelOption> with_mixture(std::vector<ModelOption> model);

// Weights of the routers' losses, which are summed over the blocks; both 0 where there are no experts.
struct RouterWeights {
  double balance = 0, z = 0;
};

// Of a declared configuration. ValueError for keys that count only beside experts, and for weights below 0; other
// values are the model's to check.
void read_mixture(const Config& config, nn::GptOptions& options);
RouterWeights router_weights(const Config& config);

}  // namespace heddle::train
