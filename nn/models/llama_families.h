// Families of Llama's kind: what a config.json of Hugging Face says.
//
//   const nn::LlamaConfig config = nn::llama_config(text, "SmolLM2/config.json");
//   nn::Llama model(config.options);                           // drawn weights
//
// Purpose: a family is a function from its config to LlamaOptions; what all of them call alike is read once. Both forms
// of rotary settings are read: rope_theta with rope_scaling, and rope_parameters. Invariants: what would change the
// network and is not read is refused by name. Errors: IoError "[config] path: ..." in one line. Thread safety: pure
// functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "heddle/nn/models/llama_options.h"

namespace heddle::nn {

struct LlamaConfig {
  LlamaOptions options;
  std::string architecture;      // its name in GGUF
  bool fused = false;            // projections of an input stand in one matrix: qkv_proj and gate_up_proj
  std::optional<int32_t> begin;  // the token in front of a text
  std::vector<int32_t> ends;     // tokens behind it
};
// `path` stands in errors.
LlamaConfig llama_config(std::string_view json, const std::string& path);

// The values of model_type that are read, sorted.
std::vector<std::string> llama_families();

}  // namespace heddle::nn
