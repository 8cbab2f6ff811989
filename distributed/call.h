// Call: what one rank asks of its group, and how ranks compare theirs before data moves.
//
// Invariants: two ranks may exchange data where their calls agree: operation, reduction, dtype, shape, sizes of parts,
// root and group.
// The line is only said. Thread safety: plain values, pure functions.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "heddle/core/base/caller.h"
#include "heddle/core/base/dtype.h"
#include "heddle/core/base/shape.h"
#include "heddle/distributed/reduce.h"

namespace heddle::distributed {

enum class Operation : uint8_t {
  all_reduce,
  all_gather,
  reduce_scatter,
  all_to_all,
  broadcast,
  send,
  receive,
  barrier
};
std::string_view name_of(Operation operation);

struct Call {
  Operation operation = Operation::barrier;
  Reduction reduction = Reduction::sum;  // of all_reduce and reduce_scatter
  DType dtype = DType::f32;
  Shape shape;                      // as the caller named it; where parts have sizes of their own, all of them (n)
  std::vector<int64_t> sizes = {};  // of parts, by place; none: parts are equal
  int root = 0;                     // of broadcast; of send and receive, the sender
  uint64_t group = 0;               // hash of the group's name and ranks
  std::string group_name;
  uint64_t sequence = 0;  // number of the call in its group; of send and receive, among those of the pair
  std::string line;       // "train.cpp:42"; may be empty

  // Of the sizes, which do not travel; 0 where parts are equal.
  uint64_t sizes_hash = 0;
  void set_sizes(std::vector<int64_t> of_parts);

  bool moves_to_one() const { return operation == Operation::send || operation == Operation::receive; }
  // "all_reduce sum f32 (128, 784) (train.cpp:42)".
  std::string str() const;
  // "[all_reduce] call 17 of dp", with which messages begin.
  std::string place() const;
};

// A call as bytes of one length, for the other ranks.
using CallHeader = std::array<std::byte, 192>;
CallHeader header_of(const Call& call);
// Nothing where the bytes are no header: another version, or another order of bytes.
std::optional<Call> call_of(const CallHeader& header);

bool agree(const Call& a, const Call& b);

struct RankCall {
  int rank;
  std::optional<Call> call;  // none: what came is no header
};
// "ranks 0, 2 and 3: all_reduce sum f32 (8); rank 1: barrier (a.cpp:7)", equal calls together.
std::string list_calls(const std::vector<RankCall>& calls);
// "rank 3", "ranks 0, 2 and 3".
std::string list_ranks(const std::vector<int>& ranks);

}  // namespace heddle::distributed
