// By what a base is recognised when its adapters come back.
//
// Purpose: one text for a model whatever its matrices are packed in: as a GGUF file of any type and as a folder of
// Hugging Face. Invariants: depends on the sizes of LlamaOptions and on the weights of the norms alone, as what they
// multiply by (of Gemma 1 + w, which GGUF files hold) and rounded to bf16; so copies agree where norms are kept as they
// were or in bf16. Models whose weights are f32 are others in f16, where that rounds a norm across a step of bf16.
// Thread safety: none.
#pragma once

#include <string>

#include "heddle/nn/models/llama.h"

namespace heddle::nn {

// 64 lower-case digits of SHA-256. Reads the norms from their device.
std::string digest_of(const Llama& model);

}  // namespace heddle::nn
