// Byte-pair encoding: the merges of a vocabulary, and their application to one word.
//
// Sennrich et al. 2016, "Neural machine translation of rare words with subword units". Invariants: of all pairs of
// neighbours that have a merge the one of the lowest rank, of equal ones the leftmost, is joined first. Work is n log n
// of a word's length. Thread safety: PairRanks is immutable once filled; a PairMerger belongs to one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <queue>
#include <span>
#include <tuple>
#include <unordered_map>
#include <vector>

namespace heddle::data::detail {

class PairRanks {
 public:
  struct Ranked {
    int32_t rank, result;
  };
  // Ranks are those of the calls; a pair that is there already keeps its own.
  void add(int32_t left, int32_t right, int32_t result);
  void reserve(size_t merges) { of_.reserve(merges); }
  // Null where the pair has no merge.
  const Ranked* find(int32_t left, int32_t right) const;

 private:
  std::unordered_map<uint64_t, Ranked> of_;
  int32_t next_ = 0;
};

class PairMerger {
 public:
  // `ranks` has to outlive it.
  explicit PairMerger(const PairRanks& ranks) : ranks_(ranks) {}
  // Appends to `out` what becomes of a word's tokens.
  void merge(std::span<const int32_t> word, std::vector<int32_t>& out);

 private:
  static constexpr size_t nowhere = static_cast<size_t>(-1);
  struct Part {
    int32_t token;  // -1: joined to the one before
    size_t before, next;
  };
  struct Candidate {
    int32_t rank;
    size_t at;
    int32_t left, right, result;
    bool operator>(const Candidate& other) const { return std::tie(rank, at) > std::tie(other.rank, other.at); }
  };
  void offer(size_t at);
  void join(const Candidate& candidate);

  const PairRanks& ranks_;
  std::vector<Part> parts_;
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> candidates_;
};

}  // namespace heddle::data::detail
