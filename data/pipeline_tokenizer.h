// Tokenizers of language models that others wrote: Llama's, Mistral's, Qwen's, Gemma's, Phi's and their like.
//
//   const auto tokenizer = data::load_tokenizer("Llama-3.2-1B");                    // its tokenizer.json
//   std::vector<int32_t> tokens = tokenizer->ends().before;                         // <|begin_of_text|>
//   for (int32_t t : tokenizer->encode("to be or not")) tokens.push_back(t);
//
// Read are byte pairs, over bytes (GPT-2, Llama 3, Qwen) or over characters with a fallback to bytes (SentencePiece's:
// Llama 2, Mistral, Gemma, Phi 3), and unigrams; data/tokenizers/pipeline.h has all stages. Tokens are those of Hugging
// Face's library, but: special tokens are text unless they are to be recognised, and never come out of a text
// otherwise; a character that has no token is an error where the library drops it; bytes that are no UTF-8, which the
// library does not take, are bytes. What is a letter, a digit or a composed character is said by utf8proc's tables
// (data/unicode.h), so that characters of other versions of Unicode may be cut otherwise. Errors: ValueError. Thread
// safety: immutable.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "heddle/data/tokenizer.h"

namespace heddle::data {

struct Pipeline;

class PipelineTokenizer final : public Tokenizer {
 public:
  // ValueError for stages that do not fit together (check_pipeline()).
  explicit PipelineTokenizer(Pipeline pipeline);

  int64_t size() const override { return static_cast<int64_t>(texts_.size()); }
  const std::string& text_of(int32_t token) const override;
  std::string text_at_start(int32_t token) const override;
  const std::map<std::string, int32_t>& special() const override { return special_; }
  const TextEnds& ends() const override;
  // {"type": "pipeline", "tokenizer": ...}: a tokenizer.json and, beside it, the tokens that begin and end a text.
  std::string str() const override;
  // As Hugging Face's library reads it.
  std::string tokenizer_json() const;
  const Pipeline& pipeline() const { return *pipeline_; }
  // As encode() of a text that does not begin one: nothing is put in front of it that only a beginning has.
  std::vector<int32_t> encode_inside(std::string_view text) const;

 private:
  struct Lookup;
  class Encoder;

  std::vector<int32_t> tokens_of(std::string_view text, SpecialTokens how) const override;

  std::shared_ptr<const Pipeline> pipeline_;
  std::shared_ptr<const Lookup> lookup_;
  std::vector<std::string> texts_;
  std::map<std::string, int32_t> special_;
};

}  // namespace heddle::data
