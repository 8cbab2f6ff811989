#include "heddle/data/tokenizer_gguf.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "heddle/core/base/error.h"
#include "heddle/core/base/shortened.h"
#include "heddle/data/pipeline_tokenizer.h"
#include "heddle/data/tokenizers/gguf_kinds.h"
#include "heddle/data/tokenizers/pipeline.h"
#include "heddle/data/tokenizers/scored_merges.h"

namespace heddle::data {
namespace {

class GgufReader {
 public:
  GgufReader(const Gguf& file, const std::string& path) : file_(file), path_(path) {}

  GgufTokenizer run() {
    const std::string_view model = file_.at("tokenizer.ggml.model").as_text();
    if (model != "gpt2" && model != "llama")
      fail(fmt::format("the tokenizer is of kind '{}'; read are gpt2 (byte pairs) and llama (SentencePiece)",
                       shortened(model)));
    names();
    added();
    const bool begins = model == "gpt2" ? byte_pairs() : sentence_piece();
    return ends(begins, model == "llama");
  }

 private:
  void names() {
    std::unordered_map<std::string_view, size_t> seen;
    for (const std::string_view name : file_.at("tokenizer.ggml.tokens").texts()) {
      const size_t number = p_.names.size();
      const bool is_new = seen.emplace(name, number).second;
      if (name.empty() || !is_new)
        fail(fmt::format("token {} is '{}', which is {}", number, shortened(name),
                         name.empty() ? "no token" : "there twice"));
      p_.names.emplace_back(name);
    }
    const std::vector<double> types = file_.at("tokenizer.ggml.token_type").numbers();
    if (types.size() != p_.names.size()) fail(fmt::format("{} tokens have {} types", p_.names.size(), types.size()));
    for (const double type : types) {
      if (!(type >= 1 && type <= 6) || type != std::floor(type))
        fail(fmt::format("token {} is of type {}; known are 1 to 6", types_.size(), type));
      types_.push_back(static_cast<TokenType>(static_cast<int>(type)));
    }
  }

  void added() {
    for (size_t i = 0; i < types_.size(); ++i) {
      if (types_[i] == TokenType::normal || types_[i] == TokenType::byte) continue;
      p_.added.push_back(
          {.text = p_.names[i], .token = static_cast<int32_t>(i), .special = types_[i] != TokenType::user_defined});
    }
  }

  const ByteKind& byte_kind() const {
    const GgufValue* found = file_.find("tokenizer.ggml.pre");
    const std::string_view pre = found == nullptr ? byte_kinds[0].name : found->as_text();
    std::string known;
    for (const ByteKind& kind : byte_kinds) {
      if (kind.name == pre) return kind;
      known += fmt::format("{}{}", known.empty() ? "" : ", ", kind.name);
    }
    fail(fmt::format("the tokenizer cuts words by '{}'; read are {}", shortened(pre, 40), known));
  }

  bool byte_pairs() {
    const ByteKind& kind = byte_kind();
    if (kind.composed) p_.normalisers.emplace_back(ToNfc{});
    if (kind.digits_apart) p_.cuts.emplace_back(CutDigits{});
    const bool plain = kind.words == WordRule::gpt2;
    if (!plain) p_.cuts.emplace_back(CutWords{kind.words});
    p_.cuts.emplace_back(CutBytes{.words = plain});
    p_.decoding = {FromBytes{}};
    p_.model = PairModel{.merges = merges(), .whole_words = kind.whole_words};
    return kind.begins;
  }

  std::vector<PairModel::Merge> merges() const {
    std::unordered_map<std::string_view, int32_t> token_of;
    for (size_t i = 0; i < p_.names.size(); ++i) token_of.emplace(p_.names[i], static_cast<int32_t>(i));
    std::vector<PairModel::Merge> all;
    for (const std::string_view line : file_.at("tokenizer.ggml.merges").texts()) {
      const auto where = fmt::format("merge {}", all.size());
      const size_t space = line.find(' ');
      if (space == 0 || space == std::string_view::npos || space + 1 == line.size() ||
          line.find(' ', space + 1) != std::string_view::npos)
        fail(fmt::format("{}: '{}' is not two tokens with one space between them", where, shortened(line)));
      const auto number = [&](std::string_view name) {
        const auto found = token_of.find(name);
        if (found == token_of.end())
          fail(fmt::format("{}: token '{}' is not in the vocabulary", where, shortened(name)));
        return found->second;
      };
      const std::string_view left = line.substr(0, space), right = line.substr(space + 1);
      all.push_back({number(left), number(right), number(std::string(left).append(right))});
    }
    return all;
  }

  bool sentence_piece() {
    if (file_.find("tokenizer.ggml.precompiled_charsmap") != nullptr)
      fail("tokenizer.ggml.precompiled_charsmap: texts are normalised by a table, which is not known");
    if (flag("tokenizer.ggml.remove_extra_whitespaces", false))
      fail("tokenizer.ggml.remove_extra_whitespaces is not known");
    const bool space_in_front = flag("tokenizer.ggml.add_space_prefix", true);
    if (space_in_front) p_.normalisers.emplace_back(Prepend{space_mark});
    p_.normalisers.emplace_back(Replace{" ", space_mark});
    p_.decoding = {Replace{space_mark, " "}, ByteNames{}, FuseText{}};
    if (space_in_front) p_.decoding.emplace_back(StripStart{" "});
    const std::vector<double> scores = file_.at("tokenizer.ggml.scores").numbers();
    if (scores.size() != p_.names.size()) fail(fmt::format("{} tokens have {} scores", p_.names.size(), scores.size()));
    std::vector<bool> mergeable;
    for (size_t i = 0; i < scores.size(); ++i) {
      if (std::isnan(scores[i])) fail(fmt::format("the score of token {} is no number", i));
      mergeable.push_back(types_[i] == TokenType::normal);
    }
    p_.model = PairModel{.merges = detail::merges_by_score(p_.names, scores, mergeable), .joins_unknown = true};
    p_.byte_fallback = std::count(types_.begin(), types_.end(), TokenType::byte) > 0;
    p_.unknown = token("tokenizer.ggml.unknown_token_id", 0);
    return true;
  }

  GgufTokenizer ends(bool begins, bool is_llama) {
    const auto usual = [&](int32_t t) { return is_llama ? std::optional(t) : std::nullopt; };
    p_.ends.begin = token("tokenizer.ggml.bos_token_id", usual(1));
    p_.ends.end = token("tokenizer.ggml.eos_token_id", usual(2));
    begins = flag("tokenizer.ggml.add_bos_token", begins);
    const bool finishes = flag("tokenizer.ggml.add_eos_token", false);
    if (begins && !p_.ends.begin) fail("texts begin with a token, and none is named as tokenizer.ggml.bos_token_id");
    if (finishes && !p_.ends.end) fail("texts end with a token, and none is named as tokenizer.ggml.eos_token_id");
    if (begins) p_.ends.before = {*p_.ends.begin};
    if (finishes) p_.ends.after = {*p_.ends.end};
    GgufTokenizer made{.begin = p_.ends.begin, .end = p_.ends.end, .begins = begins};
    made.tokenizer = std::make_shared<PipelineTokenizer>(std::move(p_));
    return made;
  }

  bool flag(const char* key, bool otherwise) const {
    const GgufValue* found = file_.find(key);
    return found == nullptr ? otherwise : found->as_bool();
  }

  std::optional<int32_t> token(const char* key, std::optional<int32_t> otherwise) const {
    const GgufValue* found = file_.find(key);
    const size_t tokens = p_.names.size();
    if (found == nullptr) return otherwise && static_cast<size_t>(*otherwise) < tokens ? otherwise : std::nullopt;
    const uint64_t number = found->as_unsigned();
    if (number >= tokens) fail(fmt::format("{} is {}; there are {} tokens", key, number, tokens));
    return static_cast<int32_t>(number);
  }

  [[noreturn]] void fail(const std::string& what) const { throw IoError(fmt::format("[gguf] {}: {}", path_, what)); }

  const Gguf& file_;
  const std::string& path_;
  std::vector<TokenType> types_;
  Pipeline p_;
};

}  // namespace

GgufTokenizer tokenizer_of(const Gguf& file, const std::string& path) {
  try {
    return GgufReader(file, path).run();
  } catch (const ValueError& error) {  // a value of another type, or lists that do not fit together
    throw IoError(fmt::format("[gguf] {}: the tokenizer: {}", path, shortened(error.what())));
  }
}

}  // namespace heddle::data
