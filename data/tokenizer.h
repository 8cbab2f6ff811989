// Tokenizers: text to numbers and back.
//
//   const auto tokenizer = data::BpeTokenizer::train(text, {.vocabulary = 1256});
//   const std::vector<int32_t> tokens = tokenizer->encode("to be or not");
//   tokenizer->decode(tokens);                                               // "to be or not"
//   save_safetensors(path, state, {{"tokenizer", tokenizer->str()}});        // and back: data::parse_tokenizer(text)
//
// Invariants: tokens are 0 ... size() - 1. BpeTokenizer takes any bytes, and decode(encode(x)) is x; what a special
// token (<|endoftext|>) looks like in a text is text, unless the call says otherwise. Tokenizers that others wrote are
// data/pipeline_tokenizer.h's. CharTokenizer takes UTF-8 of the
// characters that it knows. Errors: ValueError for characters and tokens that a vocabulary does not have, IoError with
// file (and line) for files that do not fit together. Thread safety: immutable; may be used by several threads at once.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace heddle::data {

enum class SpecialTokens : uint8_t { as_text, recognised };

// Where a text begins and ends, as far as a tokenizer says so.
struct TextEnds {
  std::vector<int32_t> before, after;  // what stands around each text that the model reads
  std::optional<int32_t> begin, end;   // the tokens that mean it; a model that writes `end` has finished
};

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  // How many tokens there are, special ones included: what a model's vocabulary has to hold.
  virtual int64_t size() const = 0;
  // Without what ends() puts around it. Special tokens in the text are such only where they are to be recognised: never
  // in a text that somebody else wrote.
  std::vector<int32_t> encode(std::string_view text, SpecialTokens how = SpecialTokens::as_text) const {
    return tokens_of(text, how);
  }
  // What a token stands for. ValueError for one that there is not.
  virtual const std::string& text_of(int32_t token) const = 0;
  // The same where it is the first of a text: some tokenizers put a space in front of a text, and take it off again.
  virtual std::string text_at_start(int32_t token) const { return text_of(token); }
  std::string decode(std::span<const int32_t> tokens) const;
  virtual const TextEnds& ends() const;
  // Special tokens by name, such as <|endoftext|>.
  virtual const std::map<std::string, int32_t>& special() const = 0;
  // JSON, for parse_tokenizer(): what is stored with a model.
  virtual std::string str() const = 0;

 private:
  virtual std::vector<int32_t> tokens_of(std::string_view text, SpecialTokens how) const = 0;
};
using TokenizerPtr = std::shared_ptr<const Tokenizer>;

// From what str() gave, or a tokenizer.json of Hugging Face's library (data/pipeline_tokenizer.h). `where` stands in
// the errors (IoError): a path.
TokenizerPtr parse_tokenizer(std::string_view text, std::string_view where = "tokenizer");
// Text of tokens that come one by one, in whole characters. Thread safety: none.
class StreamedText {
 public:
  // `before` stands in front of what the tokens say, and is shown with the first one. The tokenizer has to outlive
  // this.
  explicit StreamedText(const Tokenizer& tokenizer, std::string before = {});
  // What there is to show now, each byte that is no UTF-8 as U+FFFD; the bytes of a character that is not whole yet are
  // held back.
  std::string add(int32_t token);
  // What was held back.
  std::string finish();

 private:
  std::string shown(size_t bytes);

  const Tokenizer& tokenizer_;
  bool starts_;
  std::string held_;
};

// ValueError unless a model of so many tokens takes all that this tokenizer makes.
void check_vocabulary(const Tokenizer& tokenizer, int64_t model_vocabulary);

// A token for each Unicode character of a text, in the order of code points.
class CharTokenizer final : public Tokenizer {
 public:
  // The characters of the text, each once. ValueError for text that is no UTF-8, or empty.
  explicit CharTokenizer(std::string_view text);
  int64_t size() const override { return static_cast<int64_t>(characters_.size()); }
  const std::string& text_of(int32_t token) const override;
  const std::map<std::string, int32_t>& special() const override;
  std::string str() const override;

 private:
  std::vector<int32_t> tokens_of(std::string_view text, SpecialTokens how) const override;

  std::vector<std::string> characters_;
  std::vector<int32_t> codes_;  // ascending code points: the token of each is its place
};

struct BpeTraining {
  int64_t vocabulary = 1024;  // tokens in all: 256 bytes, merges, special ones
  std::vector<std::string> special = {"<|endoftext|>"};
  int64_t least_count = 2;  // a pair that is rarer is not merged
};

// Byte-level byte-pair encoding, GPT-2's: words (data/words.h), then the merges, each as early as its rank. Sennrich et
// al. 2016, "Neural machine translation of rare words with subword units"; Radford et al. 2019.
class BpeTokenizer final : public Tokenizer {
 public:
  struct Merge {
    int32_t left, right, result;
  };
  // tokens: the bytes that each token stands for. ValueError unless each is there once, every single byte is a token,
  // and every merge joins two to what both say.
  BpeTokenizer(std::vector<std::string> tokens, std::vector<Merge> merges, std::map<std::string, int32_t> special = {});

  // Learns merges from a text: again and again the pair of tokens that is most frequent within words (of equally
  // frequent ones that of the lowest tokens) becomes a token. Stops early when no pair is frequent enough. Tokens are
  // in GPT-2's order: bytes, merges, special ones.
  static std::shared_ptr<const BpeTokenizer> train(std::string_view text, const BpeTraining& options = {});
  // GPT-2's two files: a JSON object from token to number, and a line "left right" for each merge in order. Tokens of
  // the first that no merge makes are special ones.
  static std::shared_ptr<const BpeTokenizer> load(const std::string& vocab_json, const std::string& merges_txt);
  // vocab.json and merges.txt in that folder, which is made if it is missing.
  void save(const std::string& folder) const;

  int64_t size() const override { return static_cast<int64_t>(tokens_.size()); }
  const std::string& text_of(int32_t token) const override;
  const std::map<std::string, int32_t>& special() const override { return special_; }
  const std::vector<Merge>& merges() const { return merges_; }
  std::string str() const override;

 private:
  struct Lookup;

  std::vector<int32_t> tokens_of(std::string_view text, SpecialTokens how) const override;
  std::vector<int32_t> bytes_of(std::string_view word) const;

  std::vector<std::string> tokens_;
  std::vector<Merge> merges_;
  std::map<std::string, int32_t> special_;
  std::vector<int32_t> token_of_byte_;
  std::shared_ptr<const Lookup> lookup_;
};

}  // namespace heddle::data
