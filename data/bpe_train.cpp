// Training of byte pairs: counts of pairs are kept up to date, and only words that hold the merged pair are looked at
// again.
#include <fmt/format.h>

#include <algorithm>
#include <queue>
#include <unordered_map>

#include "heddle/core/base/error.h"
#include "heddle/data/bpe_text.h"
#include "heddle/data/tokenizer.h"
#include "heddle/data/words.h"

namespace heddle::data {
namespace {

using Pair = std::pair<int32_t, int32_t>;

struct PairHash {
  size_t operator()(const Pair& p) const {
    return std::hash<uint64_t>()((uint64_t{static_cast<uint32_t>(p.first)} << 32 | static_cast<uint32_t>(p.second)) *
                                 0x9E3779B97F4A7C15u);
  }
};

class BpeTrainer {
 public:
  explicit BpeTrainer(std::string_view text) {
    for (const uint8_t byte : detail::bytes_in_order()) add_token(std::string(1, static_cast<char>(byte)));
    std::unordered_map<std::string_view, int64_t> counts;
    for_each_word(text, [&](std::string_view word) { ++counts[word]; });
    for (const auto& [word, count] : counts) add_word(word, count);
    for (auto& [pair, use] : uses_) offer(pair, use);
  }

  // False when there is none that is frequent enough.
  bool merge_next(int64_t least_count) {
    while (!queue_.empty()) {
      const Candidate best = queue_.top();
      queue_.pop();
      const auto found = uses_.find(best.pair);
      if (found == uses_.end()) continue;       // merged, and offered twice
      if (found->second.count != best.count) {  // it has become rarer since
        offer(best.pair, found->second);
        continue;
      }
      if (best.count < std::max<int64_t>(least_count, 1)) return false;
      merge(best.pair);
      return true;
    }
    return false;
  }

  int64_t tokens() const { return static_cast<int64_t>(tokens_.size()); }
  std::vector<std::string> take_tokens() { return std::move(tokens_); }
  std::vector<BpeTokenizer::Merge> take_merges() { return std::move(merges_); }

 private:
  struct Word {
    std::vector<int32_t> tokens;
    int64_t count;
  };
  struct Use {
    int64_t count = 0, offered = 0;  // now, and in the queue
    std::vector<uint32_t> words;     // that hold the pair, or did
  };
  struct Candidate {
    int64_t count;
    Pair pair;
    bool operator<(const Candidate& other) const {
      return count != other.count ? count < other.count : pair > other.pair;
    }
  };

  int32_t add_token(const std::string& text) {
    const auto [found, is_new] = token_of_.try_emplace(text, static_cast<int32_t>(tokens_.size()));
    if (is_new) tokens_.push_back(text);
    return found->second;
  }

  void add_word(std::string_view text, int64_t count) {
    Word word{{}, count};
    for (const char c : text) word.tokens.push_back(token_of_.at(std::string(1, c)));
    words_.push_back(std::move(word));
    count_pairs(static_cast<uint32_t>(words_.size() - 1), +1);
  }

  void count_pairs(uint32_t number, int64_t sign) {
    const Word& word = words_[number];
    for (size_t i = 0; i + 1 < word.tokens.size(); ++i) {
      Use& use = uses_[{word.tokens[i], word.tokens[i + 1]}];
      use.count += sign * word.count;
      if (sign > 0 && (use.words.empty() || use.words.back() != number)) use.words.push_back(number);
    }
  }

  void merge(const Pair& pair) {
    const int32_t result =
        add_token(tokens_[static_cast<size_t>(pair.first)] + tokens_[static_cast<size_t>(pair.second)]);
    merges_.push_back({pair.first, pair.second, result});
    const std::vector<uint32_t> numbers = std::move(uses_[pair].words);
    for (const uint32_t number : numbers) {
      count_pairs(number, -1);
      join(words_[number].tokens, pair, result);
      count_pairs(number, +1);
    }
    for (const uint32_t number : numbers) offer_around(words_[number].tokens, result);
    uses_.erase(pair);
  }

  static void join(std::vector<int32_t>& tokens, const Pair& pair, int32_t result) {
    size_t to = 0;
    for (size_t i = 0; i < tokens.size(); ++i) {
      const bool here = i + 1 < tokens.size() && tokens[i] == pair.first && tokens[i + 1] == pair.second;
      tokens[to++] = here ? result : tokens[i];
      i += here;
    }
    tokens.resize(to);
  }

  // Pairs that have become more frequent all hold the new token.
  void offer_around(const std::vector<int32_t>& tokens, int32_t token) {
    for (size_t i = 0; i + 1 < tokens.size(); ++i) {
      if (tokens[i] != token && tokens[i + 1] != token) continue;
      const Pair pair{tokens[i], tokens[i + 1]};
      offer(pair, uses_[pair]);
    }
  }

  void offer(const Pair& pair, Use& use) {
    if (use.count != use.offered) queue_.push({use.count, pair});
    use.offered = use.count;
  }

  std::vector<std::string> tokens_;
  std::unordered_map<std::string, int32_t> token_of_;
  std::vector<Word> words_;
  std::unordered_map<Pair, Use, PairHash> uses_;
  std::priority_queue<Candidate> queue_;
  std::vector<BpeTokenizer::Merge> merges_;
};

}  // namespace

std::shared_ptr<const BpeTokenizer> BpeTokenizer::train(std::string_view text, const BpeTraining& options) {
  const int64_t special = static_cast<int64_t>(options.special.size());
  if (options.vocabulary < 256 + special || options.vocabulary > 1 << 24) {
    throw ValueError(
        fmt::format("[BpeTokenizer] a vocabulary of {} is not between {} (the bytes and {} special tokens) and {}",
                    options.vocabulary, 256 + special, special, 1 << 24));
  }
  BpeTrainer trainer(text);
  while (trainer.tokens() < options.vocabulary - special && trainer.merge_next(options.least_count)) {
  }
  std::vector<std::string> tokens = trainer.take_tokens();
  std::map<std::string, int32_t> names;
  for (const std::string& name : options.special) {
    if (!names.emplace(name, static_cast<int32_t>(tokens.size())).second)
      throw ValueError(fmt::format("[BpeTokenizer] the special token '{}' is given twice", name));
    tokens.push_back(name);
  }
  return std::make_shared<BpeTokenizer>(std::move(tokens), trainer.take_merges(), std::move(names));
}

}  // namespace heddle::data
