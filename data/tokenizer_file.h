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

// A folder with vocab.json and merges.txt (or tokenizer.json), a file that Tokenizer::str() wrote, or a model file
// (.safetensors) that holds one in its metadata.
TokenizerPtr load_tokenizer(const std::string& path);
// What the model file's metadata hold: "tokenizer", or the one of "preprocessing". IoError where there is none.
TokenizerPtr tokenizer_of(const Metadata& metadata, const std::string& path);

}  // namespace heddle::data
