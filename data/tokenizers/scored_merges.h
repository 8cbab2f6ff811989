// SentencePiece's byte-pair models as merges: such a model has a score for each token instead.
//
// Of all neighbours whose concatenation is a token the one of the highest score is joined first, of equal ones that of
// the lowest number. Thread safety: pure function.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "heddle/data/tokenizers/pipeline.h"

namespace heddle::data::detail {

// Merges by rank, of all ways to put a token together from two; only tokens that are `mergeable` take part.
std::vector<PairModel::Merge> merges_by_score(const std::vector<std::string>& names, std::span<const double> scores,
                                              const std::vector<bool>& mergeable);

}  // namespace heddle::data::detail
