#include "heddle/data/tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "heddle/core/base/error.h"
#include "heddle/core/base/parse_json.h"
#include "heddle/data/bpe_text.h"
#include "heddle/data/pipeline_tokenizer.h"
#include "heddle/data/tokenizers/pipeline_json.h"
#include "heddle/data/unicode.h"

namespace heddle::data {

using OrderedJson = nlohmann::ordered_json;

std::string Tokenizer::decode(std::span<const int32_t> tokens) const {
  std::string text;
  for (size_t i = 0; i < tokens.size(); ++i) text += i == 0 ? text_at_start(tokens[i]) : text_of(tokens[i]);
  return text;
}

const TextEnds& Tokenizer::ends() const {
  static const TextEnds none;
  return none;
}

StreamedText::StreamedText(const Tokenizer& tokenizer, std::string before)
    : tokenizer_(tokenizer), starts_(before.empty()), held_(std::move(before)) {}

std::string StreamedText::add(int32_t token) {
  held_ += starts_ ? tokenizer_.text_at_start(token) : tokenizer_.text_of(token);
  starts_ = false;
  return shown(whole_characters(held_));
}

std::string StreamedText::finish() { return shown(held_.size()); }

std::string StreamedText::shown(size_t bytes) {
  std::string text = valid_utf8(std::string_view(held_).substr(0, bytes));
  held_.erase(0, bytes);
  return text;
}

void check_vocabulary(const Tokenizer& tokenizer, int64_t model_vocabulary) {
  if (tokenizer.size() <= model_vocabulary) return;
  throw ValueError(
      fmt::format("[tokenizer] it has {} tokens, but the model's vocabulary is {}; do the two belong together?",
                  tokenizer.size(), model_vocabulary));
}

TokenizerPtr parse_tokenizer(std::string_view text, std::string_view where) {
  const auto fail = [&](std::string_view what) {
    constexpr std::string_view own = "[tokenizer] ";
    if (what.starts_with(own)) what.remove_prefix(own.size());
    throw IoError(fmt::format("[tokenizer] {}: {}", where, shortened(what)));
  };
  const nlohmann::json json = parse_json(text, fmt::format("[tokenizer] {}", where));
  try {
    if (detail::is_tokenizer_json(json))
      return std::make_shared<PipelineTokenizer>(detail::pipeline_from_json(json, where));
    const std::string type = json.at("type");
    if (type == "bpe") return detail::bpe_from_json(json, where);
    if (type == "pipeline") return std::make_shared<PipelineTokenizer>(detail::pipeline_from_stored(json, where));
    if (type != "characters") fail(fmt::format("type is '{}'; known: bpe, characters, pipeline", type));
    return std::make_shared<CharTokenizer>(json.at("characters").get<std::string>());
  } catch (const nlohmann::json::exception& error) {
    fail(fmt::format("not what a tokenizer is stored as: {}", error.what()));
  } catch (const ValueError& error) {
    fail(error.what());
  }
  return nullptr;
}

CharTokenizer::CharTokenizer(std::string_view text) {
  if (text.empty()) throw ValueError("[CharTokenizer] the text is empty, so there are no characters");
  std::set<int32_t> codes;
  for (size_t at = 0; at < text.size();) {
    const Character c = character_at(text, at);
    if (c.code < 0)
      throw ValueError(
          fmt::format("[CharTokenizer] the text is no UTF-8 at byte {}; a BpeTokenizer takes any bytes", at));
    codes.insert(c.code);
    at += c.bytes;
  }
  codes_.assign(codes.begin(), codes.end());
  for (const int32_t code : codes_) characters_.push_back(utf8(code));
}

std::vector<int32_t> CharTokenizer::tokens_of(std::string_view text, SpecialTokens) const {
  std::vector<int32_t> tokens;
  tokens.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const Character c = character_at(text, at);
    const auto found = std::lower_bound(codes_.begin(), codes_.end(), c.code);
    if (found == codes_.end() || *found != c.code) {
      throw ValueError(fmt::format("[CharTokenizer] {} at byte {} is not among the {} characters of the vocabulary",
                                   describe_character(text, at), at, size()));
    }
    tokens.push_back(static_cast<int32_t>(found - codes_.begin()));
    at += c.bytes;
  }
  return tokens;
}

const std::string& CharTokenizer::text_of(int32_t token) const {
  if (token < 0 || token >= size())
    throw ValueError(fmt::format("[CharTokenizer] there is no token {} among {}", token, size()));
  return characters_[static_cast<size_t>(token)];
}

const std::map<std::string, int32_t>& CharTokenizer::special() const {
  static const std::map<std::string, int32_t> none;
  return none;
}

std::string CharTokenizer::str() const {
  std::string all;
  for (const std::string& c : characters_) all += c;
  return OrderedJson{{"type", "characters"}, {"characters", all}}.dump();
}

}  // namespace heddle::data
