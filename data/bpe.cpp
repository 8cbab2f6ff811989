// Encoding with byte pairs.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <unordered_map>
#include <unordered_set>

#include "heddle/core/base/error.h"
#include "heddle/data/tokenizer.h"
#include "heddle/data/tokenizers/pair_merger.h"
#include "heddle/data/tokenizers/prefix_index.h"
#include "heddle/data/words.h"

namespace heddle::data {
namespace {

constexpr int32_t none = -1;

}  // namespace

struct BpeTokenizer::Lookup {
  detail::PairRanks ranks;
  detail::PrefixIndex special;
};

BpeTokenizer::BpeTokenizer(std::vector<std::string> tokens, std::vector<Merge> merges,
                           std::map<std::string, int32_t> special)
    : tokens_(std::move(tokens)), merges_(std::move(merges)), special_(std::move(special)), token_of_byte_(256, none) {
  const auto fail = [](const std::string& what) { throw ValueError("[BpeTokenizer] " + what); };
  if (tokens_.size() > static_cast<size_t>(std::numeric_limits<int32_t>::max())) fail("there are too many tokens");
  std::unordered_set<std::string_view> different;
  for (const std::string& t : tokens_) {
    if (t.empty() || !different.insert(t).second)
      fail(fmt::format("the token '{}' is {}", t, t.empty() ? "empty" : "there twice"));
  }
  const auto known = [&](int32_t token) { return token >= 0 && token < size(); };
  for (const auto& [name, token] : special_) {
    if (!known(token) || name.empty() || text_of(token) != name)
      fail(fmt::format("special token '{}' is not token {}", name, token));
  }
  for (size_t i = 0; i < tokens_.size(); ++i) {
    const std::string& t = tokens_[i];
    if (t.size() == 1 && special_.count(t) == 0) token_of_byte_[static_cast<uint8_t>(t[0])] = static_cast<int32_t>(i);
  }
  const auto missing = std::find(token_of_byte_.begin(), token_of_byte_.end(), none);
  if (missing != token_of_byte_.end())
    fail(fmt::format("there is no token for the byte 0x{:02X}; a byte-level vocabulary has one for each",
                     missing - token_of_byte_.begin()));
  detail::PairRanks ranks;
  for (size_t i = 0; i < merges_.size(); ++i) {
    const auto [left, right, result] = merges_[i];
    if (!known(left) || !known(right) || !known(result) || text_of(result) != text_of(left) + text_of(right))
      fail(fmt::format("merge {} does not join two tokens to a third", i));
    ranks.add(left, right, result);
  }
  std::vector<detail::PrefixIndex::Entry> names;
  for (const auto& [name, token] : special_) names.push_back({name, token});
  lookup_ = std::make_shared<const Lookup>(Lookup{std::move(ranks), detail::PrefixIndex(std::move(names))});
}

const std::string& BpeTokenizer::text_of(int32_t token) const {
  if (token < 0 || token >= size())
    throw ValueError(fmt::format("[BpeTokenizer] there is no token {} among {}", token, size()));
  return tokens_[static_cast<size_t>(token)];
}

std::vector<int32_t> BpeTokenizer::bytes_of(std::string_view word) const {
  std::vector<int32_t> tokens;
  tokens.reserve(word.size());
  for (const char c : word) tokens.push_back(token_of_byte_[static_cast<uint8_t>(c)]);
  return tokens;
}

std::vector<int32_t> BpeTokenizer::tokens_of(std::string_view text, SpecialTokens how) const {
  struct Place {
    size_t at, count;
  };
  std::vector<int32_t> out;
  out.reserve(text.size() / 3);
  std::unordered_map<std::string_view, Place> seen;  // where a word's tokens already stand
  detail::PairMerger merger(lookup_->ranks);
  const auto append = [&](std::string_view part) {
    for_each_word(part, [&](std::string_view word) {
      const auto [found, is_new] = seen.try_emplace(word, Place{out.size(), 0});
      auto& [at, count] = found->second;
      if (is_new) {
        merger.merge(bytes_of(word), out);
        count = out.size() - at;
      } else {
        for (size_t i = 0; i < count; ++i) out.push_back(out[at + i]);
      }
    });
  };
  size_t done = 0;
  if (how == SpecialTokens::recognised) {
    for (size_t at = 0; at < text.size();) {
      const auto* name = lookup_->special.longest(text.substr(at));
      if (name == nullptr) {
        ++at;
        continue;
      }
      append(text.substr(done, at - done));
      out.push_back(name->value);
      done = at += name->text.size();
    }
  }
  append(text.substr(done));
  return out;
}

}  // namespace heddle::data
