// The weights that a Llama asks for, and where files have them.
//
// Purpose: readers compare all names and shapes of a file with what the options want before anything is made of them.
// Internal to nn/models. Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "heddle/core/base/shape.h"
#include "heddle/nn/models/llama_options.h"

namespace heddle::nn {

// Rows `first` to `first` + `rows` of a tensor of a file, or a whole vector.
struct StoredWeight {
  std::string name;  // Hugging Face's
  Shape shape;       // of the whole tensor
  int64_t first = 0, rows = 0;
};
// By the name under which nn::Llama asks. fused: queries, keys and values stand one below the other in qkv_proj, gate
// and up in gate_up_proj, as Phi 3 has them.
std::map<std::string, StoredWeight> stored_weights(const LlamaOptions& options, bool fused);

using ShapesByName = std::map<std::string, Shape>;
// What is missing, of another shape, or belongs to none, all of it by name (of each up to a hundred): one line, empty
// where everything fits.
// `whose` is where the wanted shapes come from: "config.json".
std::string fault_of(const ShapesByName& found, const ShapesByName& wanted, const std::string& whose);

}  // namespace heddle::nn
