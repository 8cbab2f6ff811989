// The tokenizer inside a GGUF file.
//
// Read are byte pairs of GPT-2's kind ("tokenizer.ggml.model" gpt2) whose text is cut by GPT-2's rule or with digits
// apart ("tokenizer.ggml.pre"); others are refused by name. Errors: IoError "[gguf] path: ..." or "[bpe] path: ..." for
// lists that do not fit together. Thread safety: pure function.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "heddle/data/tokenizer.h"
#include "heddle/io/gguf.h"

namespace heddle::data {

struct GgufTokenizer {
  TokenizerPtr tokenizer;
  std::optional<int32_t> begin, end;  // of a text
  bool begins = false;                // whether a text begins with `begin`
};
GgufTokenizer tokenizer_of(const Gguf& file, const std::string& path);

}  // namespace heddle::data
