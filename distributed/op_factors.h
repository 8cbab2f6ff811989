// Factors: which dimensions of an operation's inputs and result are one, so that ranks may each compute a part of it.
// Internal to distributed (auto_shard.h).
//
// Purpose: one rule an op kind, as data: of matmul (M, K) x (K, N) the factors are M, N and K, of which K is summed.
// A cut of a factor cuts all its dimensions alike, and the operation over the parts is the part of the operation. As
// Shardy's op sharding rules (openxla.org/shardy/propagation). Thread safety: pure.
#pragma once

#include <cstdint>
#include <vector>

#include "heddle/core/graph/node.h"

namespace heddle::distributed {

struct Factor {
  enum class Reduction : uint8_t { none, sum, max, min };

  std::vector<int> inputs;  // the dimension of each input; -1: none
  int result = -1;          // that of the result; -1: reduced
  Reduction reduction = Reduction::none;
};

// Dimensions in no factor have to be whole, which is all of them for kinds without a rule. Factors for which the
// attributes hold as they are.
std::vector<Factor> factors_of(const Node& node);

}  // namespace heddle::distributed
