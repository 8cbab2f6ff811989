// What becomes of a piece of text: the two models, ready for use.
//
// Errors: ValueError for a character that has no token, where no unknown token stands for it. Thread safety: immutable;
// a PairMerger belongs to one thread.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "heddle/data/tokenizers/pair_merger.h"
#include "heddle/data/tokenizers/pipeline.h"
#include "heddle/data/tokenizers/prefix_index.h"

namespace heddle::data::detail {

// Tokens by what they stand for in a piece, without special ones: names, or where pieces are bytes the bytes.
using TokenOfPiece = std::unordered_map<std::string, int32_t>;
TokenOfPiece tokens_by_piece(const Pipeline& pipeline, const std::vector<std::string>& texts);

class PairPieces {
 public:
  PairPieces(const Pipeline& pipeline, const TokenOfPiece& token_of);
  const PairRanks& ranks() const { return ranks_; }
  void append(std::string_view piece, PairMerger& merger, std::vector<int32_t>& out) const;

 private:
  std::vector<int32_t> symbols(std::string_view piece) const;
  bool append_known(std::string_view symbol, std::vector<int32_t>& out) const;

  const Pipeline& p_;
  const TokenOfPiece& token_of_;
  PairRanks ranks_;
  bool of_bytes_, whole_words_, joins_unknown_;
  std::array<int32_t, 256> fallback_{};
};

class UnigramPieces {
 public:
  UnigramPieces(const Pipeline& pipeline, const TokenOfPiece& token_of);
  void append(std::string_view piece, std::vector<int32_t>& out) const;

 private:
  // The best way to a place: where its last token begins, -1 for an unknown character.
  struct Arrival {
    double score = 0;
    size_t from = static_cast<size_t>(-1);
    int32_t token = -1;
  };
  std::vector<Arrival> best_arrivals(std::string_view piece) const;
  void append_unknown(std::string_view text, std::vector<int32_t>& out) const;

  const Pipeline& p_;
  const TokenOfPiece& token_of_;
  const std::vector<double>& scores_;
  PrefixIndex pieces_;
  double unknown_score_;
  std::array<int32_t, 256> fallback_{};
};

}  // namespace heddle::data::detail
