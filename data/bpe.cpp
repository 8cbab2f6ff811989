// Encoding with byte pairs.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <memory>
#include <queue>
#include <tuple>
#include <unordered_map>
#include <unordered_set>

#include "heddle/core/base/error.h"
#include "heddle/data/tokenizer.h"
#include "heddle/data/words.h"

namespace heddle::data {
namespace {

constexpr int32_t none = -1;

uint64_t pair_key(int32_t left, int32_t right) {
  return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
}

// The special tokens of a text from left to right, of several at one place the longest. Each is looked for once over
// the whole text, however often others occur.
class SpecialWalk {
 public:
  struct Next {
    std::string_view name;
    int32_t token;
    size_t at;  // npos: no more of it
  };
  SpecialWalk(std::string_view text, const std::map<std::string, int32_t>& special) : text_(text) {
    for (const auto& [name, token] : special) all_.push_back({name, token, text.find(name)});
  }
  // The first one that begins at `from` or behind it; null: none.
  const Next* first(size_t from) {
    const Next* best = nullptr;
    for (Next& next : all_) {
      if (next.at < from) next.at = text_.find(next.name, from);
      if (next.at == std::string_view::npos) continue;
      if (best == nullptr || next.at < best->at || (next.at == best->at && next.name.size() > best->name.size()))
        best = &next;
    }
    return best;
  }

 private:
  std::string_view text_;
  std::vector<Next> all_;
};

}  // namespace

// What each pair of tokens is merged to, by pair_key().
struct BpeTokenizer::Ranks {
  struct Ranked {
    int32_t rank, result;
  };
  std::unordered_map<uint64_t, Ranked> of;
};

BpeTokenizer::BpeTokenizer(std::vector<std::string> tokens, std::vector<Merge> merges,
                           std::map<std::string, int32_t> special, const BpeForm& form)
    : tokens_(std::move(tokens)),
      merges_(std::move(merges)),
      special_(std::move(special)),
      form_(form),
      token_of_byte_(256, none) {
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
  if (form_.every_byte && missing != token_of_byte_.end())
    fail(fmt::format("there is no token for the byte 0x{:02X}; a byte-level vocabulary has one for each",
                     missing - token_of_byte_.begin()));
  auto ranks = std::make_shared<Ranks>();
  for (size_t i = 0; i < merges_.size(); ++i) {
    const auto [left, right, result] = merges_[i];
    if (!known(left) || !known(right) || !known(result) || text_of(result) != text_of(left) + text_of(right))
      fail(fmt::format("merge {} does not join two tokens to a third", i));
    ranks->of.try_emplace(pair_key(left, right), Ranks::Ranked{static_cast<int32_t>(i), result});
  }
  ranks_ = std::move(ranks);
}

const std::string& BpeTokenizer::text_of(int32_t token) const {
  if (token < 0 || token >= size())
    throw ValueError(fmt::format("[BpeTokenizer] there is no token {} among {}", token, size()));
  return tokens_[static_cast<size_t>(token)];
}

// Merges within one word: a list of tokens in which the pair of the lowest rank, of equal ones the leftmost, is joined
// until no pair has a rank.
class BpeTokenizer::WordEncoder {
 public:
  explicit WordEncoder(const BpeTokenizer& of) : of_(of) {}

  void append(std::string_view word, std::vector<int32_t>& out) {
    parts_.clear();
    for (size_t i = 0; i < word.size(); ++i) {
      const auto byte = static_cast<uint8_t>(word[i]);
      if (of_.token_of_byte_[byte] == none)
        throw ValueError(
            fmt::format("[BpeTokenizer] the text holds the byte 0x{:02X}, for which the vocabulary has no "
                        "token",
                        byte));
      parts_.push_back({of_.token_of_byte_[byte], i == 0 ? nowhere : i - 1, i + 1 == word.size() ? nowhere : i + 1});
    }
    for (size_t i = 0; i + 1 < parts_.size(); ++i) offer(i);
    while (!candidates_.empty()) {
      const Candidate best = candidates_.top();
      candidates_.pop();
      join(best);
    }
    for (size_t i = 0; i != nowhere; i = parts_[i].next) out.push_back(parts_[i].token);
  }

 private:
  static constexpr size_t nowhere = static_cast<size_t>(-1);
  struct Part {
    int32_t token;  // none: joined to the one before
    size_t before, next;
  };
  struct Candidate {
    int32_t rank;
    size_t at;
    int32_t left, right, result;
    bool operator>(const Candidate& other) const { return std::tie(rank, at) > std::tie(other.rank, other.at); }
  };

  void offer(size_t at) {
    const int32_t left = parts_[at].token, right = parts_[parts_[at].next].token;
    const auto& ranks = of_.ranks_->of;
    const auto found = ranks.find(pair_key(left, right));
    if (found != ranks.end()) candidates_.push({found->second.rank, at, left, right, found->second.result});
  }

  // Does nothing where one of the two has been joined meanwhile.
  void join(const Candidate& c) {
    Part& left = parts_[c.at];
    if (left.token != c.left || left.next == nowhere || parts_[left.next].token != c.right) return;
    Part& right = parts_[left.next];
    left.token = c.result;
    left.next = right.next;
    right.token = none;
    if (left.next != nowhere) {
      parts_[left.next].before = c.at;
      offer(c.at);
    }
    if (left.before != nowhere) offer(left.before);
  }

  const BpeTokenizer& of_;
  std::vector<Part> parts_;
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> candidates_;
};

std::vector<int32_t> BpeTokenizer::encode(std::string_view text, SpecialTokens how) const {
  struct Place {
    size_t at, count;
  };
  std::vector<int32_t> out;
  out.reserve(text.size() / 3);
  std::unordered_map<std::string_view, Place> seen;  // where a word's tokens already stand
  WordEncoder words(*this);
  const auto append = [&](std::string_view part) {
    for_each_word(part, form_.words, [&](std::string_view word) {
      const auto [found, is_new] = seen.try_emplace(word, Place{out.size(), 0});
      auto& [at, count] = found->second;
      if (is_new) {
        words.append(word, out);
        count = out.size() - at;
      } else {
        for (size_t i = 0; i < count; ++i) out.push_back(out[at + i]);
      }
    });
  };
  size_t done = 0;
  if (how == SpecialTokens::recognised) {
    SpecialWalk walk(text, special_);
    for (const SpecialWalk::Next* next = walk.first(0); next != nullptr; next = walk.first(done)) {
      append(text.substr(done, next->at - done));
      out.push_back(next->token);
      done = next->at + next->name.size();
    }
  }
  append(text.substr(done));
  return out;
}

}  // namespace heddle::data
