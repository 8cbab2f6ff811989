// How GGUF files call what tokenizers do. Internal to data. Thread safety: constants.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "heddle/data/words.h"

namespace heddle::data {

// What a name in "tokenizer.ggml.pre" stands for.
struct ByteKind {
  std::string_view name;
  WordRule words = WordRule::gpt2;
  bool digits_apart = false, composed = false;
  bool whole_words = false;  // a word that is a token stays whole
  bool begins = false;       // unless the file says otherwise
};
inline constexpr std::array<ByteKind, 13> byte_kinds = {{
    {"gpt-2"},
    {"gpt2"},
    {"smollm", WordRule::gpt2, true},
    {"starcoder", WordRule::gpt2, true},
    {"refact", WordRule::gpt2, true},
    {"command-r", WordRule::gpt2, true},
    {"llama-bpe", WordRule::llama3, false, false, true, true},
    {"llama3", WordRule::llama3, false, false, true, true},
    {"llama-v3", WordRule::llama3, false, false, true, true},
    {"qwen2", WordRule::qwen2, false, true},
    {"deepseek-r1-qwen", WordRule::qwen2, false, true},
    {"tekken", WordRule::tekken, false, false, true, true},
    {"gpt-4o", WordRule::gpt4o},
}};

// SentencePiece's, for a space.
inline constexpr const char* space_mark = "\u2581";

// "tokenizer.ggml.token_type".
enum class TokenType : uint8_t { normal = 1, unknown, control, user_defined, unused, byte };

}  // namespace heddle::data
