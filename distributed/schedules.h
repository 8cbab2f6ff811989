// The algorithms of collectives, as exchanges of one rank.
//
// All-reduce: each rank gets its part of the values from all others, reduces it in a balanced tree over the ranks, and
// sends the result to all others: 2 (N-1)/N of the bytes leave each rank, as with a ring, in two steps instead of
// 2 (N-1), and every element is reduced in the order of the ranks, wherever it lies. A broadcast gives each rank a part
// that it passes on (van de Geijn's scatter and gather). Parts travel in pieces, so that reducing, sending and
// receiving overlap; the room beside the values is a few pieces. Invariants: the result is the same bits each time.
// Thread safety: pure; what an exchange points to is the caller's.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "heddle/distributed/call.h"
#include "heddle/distributed/exchange.h"

namespace heddle::distributed {

// Who takes part: ranks in the world, in the order of the group, and which of them this one is.
struct Members {
  std::vector<int> ranks;
  size_t me = 0;
  size_t count() const { return ranks.size(); }
};

// What a call reads and writes; which of the two it uses is the operation's (group.h).
struct Buffers {
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
};

// Room for pieces of others, and for f16 and bf16 in f32: kept by the exchange that was made with it.
struct Scratch {
  std::vector<std::vector<std::byte>> slots;
  std::vector<float> wide;
};

Exchange schedule(const Call& call, const Members& members, const Buffers& buffers, Scratch& scratch,
                  size_t piece_bytes);

}  // namespace heddle::distributed
