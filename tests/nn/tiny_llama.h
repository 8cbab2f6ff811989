// The options of the smallest Llama that has all that a Llama has: grouped heads, odd sizes.
#pragma once

#include "heddle/nn/models/llama.h"

namespace heddle::tests {

inline const nn::LlamaOptions tiny{.vocabulary = 19,
                                   .context = 16,
                                   .layers = 2,
                                   .heads = 4,
                                   .key_heads = 2,
                                   .width = 24,
                                   .hidden = 20,
                                   .eps = 1e-4,
                                   .rope_base = 50};

}  // namespace heddle::tests
