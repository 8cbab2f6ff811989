// How well one list of figures orders what another measures.
//
// Thread safety: pure.
#pragma once

#include <span>

namespace heddle::tools::certify {

// Spearman's: Pearson's correlation of ranks, equal values taking the mean of theirs. The lists are of one length; NaN
// for fewer than two values, or where all of one side are equal.
double rank_correlation(std::span<const double> a, std::span<const double> b);

}  // namespace heddle::tools::certify
