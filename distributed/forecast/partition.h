// Which blocks each place of a pipeline gets.
//
// Invariants: places hold neighbouring blocks, at least one each, and the largest sum of a place is as small as it can
// be (the linear partition problem, by dynamic programming over prefixes). Errors: ValueError where there are fewer
// blocks than places. Thread safety: pure.
#pragma once

#include <cstddef>
#include <vector>

namespace heddle::distributed {

// For each place where its blocks begin, and behind them all where the last one's end.
std::vector<size_t> partition_blocks(const std::vector<double>& costs, size_t places);

}  // namespace heddle::distributed
