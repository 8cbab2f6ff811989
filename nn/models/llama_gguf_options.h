// Architectures of GGUF files that are Llamas: what their metadata say, and how they call tensors. Internal to
// nn/models.
//
// Purpose: an architecture is a function from metadata to LlamaOptions, as a family of Hugging Face is
// (nn/models/llama_families.h). Errors: IoError "[gguf] path: ..." in one line. Thread safety: pure functions.
#pragma once

#include <string>

#include "heddle/io/gguf.h"
#include "heddle/nn/models/llama_options.h"

namespace heddle::nn {

struct GgufLlama {
  LlamaOptions options;
  bool fused = false;   // attn_qkv, and ffn_up with the gate in front
  bool paired = false;  // rows of queries' and keys' heads stand in pairs of neighbours that turn together
};
GgufLlama gguf_llama(const Gguf& file, const std::string& path);

// Of Hugging Face's name of a tensor.
std::string gguf_name(const std::string& stored, const LlamaOptions& options);
// Factors of rotary frequencies, for all layers; files of Llama 3.1 have it.
inline constexpr const char* gguf_rope_factors = "rope_freqs.weight";

}  // namespace heddle::nn
