// Architectures of GGUF files that are Llamas: what their metadata say, and how they call tensors. Internal to
// nn/models.
//
// Purpose: an architecture is a function from metadata to LlamaOptions, as a family of Hugging Face is
// (nn/models/llama_families.h), and back. Errors: IoError "[gguf] path: ..." in one line; of writing ValueError
// "[export] ...". Thread safety: pure functions.
#pragma once

#include <string>

#include "heddle/io/gguf.h"
#include "heddle/io/write_gguf.h"
#include "heddle/nn/models/llama_families.h"
#include "heddle/nn/models/llama_options.h"

namespace heddle::nn {

struct GgufLlama {
  LlamaOptions options;
  bool fused = false;   // attn_qkv, and ffn_up with the gate in front
  bool paired = false;  // rows of queries' and keys' heads stand in pairs of neighbours that turn together
};
GgufLlama gguf_llama(const Gguf& file, const std::string& path);

// The reverse (write_llama_gguf_options.cpp): metadata from which gguf_llama() has the config's options, and
// rope_freqs.weight where they need it. ValueError, with all reasons, for what files of the config's architecture do
// not say and readers would take otherwise.
void add_gguf_options(GgufWriter& writer, const LlamaConfig& config);

// Of Hugging Face's name of a tensor; empty where no such model has it.
std::string gguf_name(const std::string& stored, const LlamaOptions& options);
// Factors of rotary frequencies, for all layers; files of Llama 3.1 have it.
inline constexpr const char* gguf_rope_factors = "rope_freqs.weight";

}  // namespace heddle::nn
