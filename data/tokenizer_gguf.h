// The tokenizer inside a GGUF file.
//
// Read are two kinds ("tokenizer.ggml.model"). gpt2: pairs of bytes, of text that is cut as "tokenizer.ggml.pre" says
// (gpt-2; smollm, starcoder, refact, command-r: digits apart; llama-bpe; qwen2; tekken; gpt-4o), in Qwen's case
// composed to form C first, as the models' own tokenizers do. llama: SentencePiece's pairs of characters, of which the
// pair whose result has the highest score is merged first, rare characters as bytes. Control tokens are special; tokens
// that a user defined are found in any text. Others are refused by name. Errors: IoError "[gguf] path: ..." in one
// line. Thread safety: pure function.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "heddle/data/tokenizer.h"
#include "heddle/io/gguf.h"
#include "heddle/io/write_gguf.h"

namespace heddle::data {

struct GgufTokenizer {
  TokenizerPtr tokenizer;             // its ends() say the same as:
  std::optional<int32_t> begin, end;  // of a text
  bool begins = false;                // whether a text begins with `begin`
};
GgufTokenizer tokenizer_of(const Gguf& file, const std::string& path);

// The reverse, into a file's metadata, for a model of `vocabulary` tokens; those that the tokenizer has not are written
// as unused ones. Written are pairs of bytes under the rules above, and pairs of characters that fall back on bytes as
// SentencePiece has them (Llama 2, Mistral, Gemma, Phi 3): their merges must follow from a score of each token, which
// becomes its score in the file; marks in tokens that are found in any text become spaces. Given is what the file's
// tokenizer does otherwise, one line: Metaspace puts no space in front of a text that begins with one; mostly nothing.
// ValueError "[gguf] ..." for other tokenizers.
std::string add_tokenizer(GgufWriter& writer, const Tokenizer& tokenizer, int64_t vocabulary);

}  // namespace heddle::data
