// Tokenizers in files, whoever wrote them.
//
//   const data::TokenizerPtr tokenizer = data::load_tokenizer("runs/char-gpt/model.safetensors");
//
// Errors: IoError. Thread safety: none.
#pragma once

#include <string>

#include "heddle/data/tokenizer.h"
#include "heddle/io/safetensors.h"

namespace heddle::data {

// A folder with tokenizer.json, Heddle's own or Hugging Face's, or else with vocab.json and merges.txt; such a
// tokenizer.json; or a model file (.safetensors) that holds a tokenizer in its metadata. In a folder, what
// tokenizer_config.json names as bos_token and eos_token are ends() of a tokenizer that others wrote.
TokenizerPtr load_tokenizer(const std::string& path);
// What the model file's metadata hold: "tokenizer", or the one of "preprocessing". IoError where there is none.
TokenizerPtr tokenizer_of(const Metadata& metadata, const std::string& path);

}  // namespace heddle::data
