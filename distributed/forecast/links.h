// Links: what ranks are connected by, in levels, and what collectives cost on them.
//
// Purpose: a level is blocks of ranks that follow each other, "8 ranks of a node"; what a group of ranks can do is what
// the narrowest level does that holds all of its ranks in one block. Every rank has its level's bandwidth to itself.
// Costs are those of Heddle's schedules (schedules.h): bytes / bandwidth, and a latency for the comparison of calls and
// for each move of data, of which an all-reduce has two. Invariants: levels grow; the last one holds all ranks. Errors:
// ValueError for levels that cannot be. Thread safety: plain value, pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "heddle/distributed/mesh.h"

namespace heddle::distributed {

struct Level {
  std::string name;
  int64_t ranks = 0;     // of a block; 0: all there are
  double bandwidth = 0;  // bytes a second that a rank sends, while it receives as many
  double latency = 0;    // seconds until a message begins to arrive
  // Seconds of a rank's processor that a byte takes which it sends while it receives another: 0 where an adapter moves
  // them, at most 1 / bandwidth. Computing beside waits so long.
  double processor = 0;

  // Share of a rank's processor that sending takes.
  double processor_share() const { return processor * bandwidth; }
};

class Links {
 public:
  // From the narrowest to the widest. Errors: ValueError for none, a bandwidth or a latency that cannot be, a block
  // that is no multiple of the one before, or a last level that is not of all ranks.
  explicit Links(std::vector<Level> levels);

  const std::vector<Level>& levels() const { return levels_; }
  // The level that the slowest of the mesh's groups along these axes needs (Mesh::groups()).
  const Level& level_of(const Mesh& mesh, const std::vector<std::string>& names) const;

 private:
  size_t place_of(int64_t first, int64_t last) const;

  std::vector<Level> levels_;
};

enum class Move : uint8_t { all_reduce, reduce_scatter, all_gather, send };

// What each of `ranks` sends where the whole is `bytes` long: 2 (N-1)/N of it, (N-1)/N, (N-1)/N, and all of it.
double bytes_of(Move move, double bytes, int64_t ranks);
// 0 for a group of one rank.
double seconds_of(Move move, double bytes, int64_t ranks, const Level& level);
// Of computing and a call that are under way at the same time, until both are over; computing waits for what sending
// takes of the processor, not for the call's latency.
double seconds_beside(double computing, double call, double sending, const Level& level);

// Exactly what the rank at `place` of a group sends in an all-reduce, a reduce-scatter or an all-gather of so many
// elements, the comparison of calls included: parts differ by one element (schedules.cpp).
uint64_t exact_bytes_of(Move move, uint64_t elements, uint64_t width, int64_t ranks, int64_t place);

}  // namespace heddle::distributed
