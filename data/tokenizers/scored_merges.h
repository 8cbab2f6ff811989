// SentencePiece's byte-pair models as merges: such a model has a score for each token instead.
//
// Of all neighbours whose concatenation is a token the one of the highest score is joined first, of equal ones that of
// the lowest number. Thread safety: pure functions.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "heddle/data/tokenizers/pipeline.h"

namespace heddle::data::detail {

// Merges by rank, of all ways to put a token together from two; only tokens that are `mergeable` take part.
std::vector<PairModel::Merge> merges_by_score(const std::vector<std::string>& names, std::span<const double> scores,
                                              const std::vector<bool>& mergeable);

// The reverse: scores with which merges_by_score() gives the merges of tokens that are `mergeable`; the other merges
// are left out. Given is why there are none, one line, empty where there are: a token that is made at ranks apart, two
// tokens that make a third and have no merge. Free is the order of one token's ways: of those that overlap in a text
// ("a" and "aa", "aa" and "a") SentencePiece takes the first. Runs of one character whose ranks are mixed get one
// score.
std::string scores_of_merges(const std::vector<std::string>& names, const std::vector<PairModel::Merge>& merges,
                             const std::vector<bool>& mergeable, std::vector<float>& scores);

}  // namespace heddle::data::detail
