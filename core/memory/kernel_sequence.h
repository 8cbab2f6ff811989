// The kernels of a graph as a sequence of launches over versions of temporaries: what rematerialization and offloading
// rewrite.
//
// Purpose: a launch may be repeated; then each value it makes has a further version, a vertex of its own. Invariants: a
// version is written before it is read, by one launch (a join's by several). Thread safety: plain value.
#pragma once

#include <map>
#include <set>
#include <vector>

#include "heddle/core/contract/device.h"
#include "heddle/core/ir/groups.h"
#include "heddle/core/ir/lowered_kernel.h"

namespace heddle {

// What the sequence knows of the kernels it was made from; never changes.
struct SequenceFacts {
  SequenceFacts(const ScheduledGraph& scheduled, const std::vector<LoweredKernel>& kernels, const Caps& caps);

  // A temporary of the graph. `unit` makes it; -1 when nothing can make it again.
  struct Base {
    int vertex = -1;
    int64_t bytes = 0;  // aligned
    int unit = -1;
    bool at_end = false;  // copied into an input after the last kernel
  };
  // A kernel, or a joined row of one that was joined: what can be launched again by itself.
  struct Unit {
    size_t kernel = 0;
    int row = -1;
    std::vector<int> reads, writes;  // bases, each once
    std::vector<int> inputs;         // slots of the graph's inputs that it reads
    double cost = 0;
    bool repeatable = true;
  };
  std::vector<Base> bases;
  std::vector<Unit> units;
  std::vector<std::vector<int>> units_of;      // by kernel
  std::map<int, std::vector<size_t>> writers;  // by input slot: kernels that overwrite it
  std::map<int, int> base_of;                  // by vertex
};

struct Launch {
  int kernel = -1;                 // of the graph: runs all its units
  int unit = -1;                   // or a repetition of one unit
  std::vector<int> reads, writes;  // versions
  bool repeated() const { return unit >= 0; }
};

struct KernelSequence {
  explicit KernelSequence(const SequenceFacts& facts);

  std::vector<Launch> launches;
  std::vector<int> base;  // by version; the first versions are the bases themselves

  // Where versions are touched, and what is alive: valid until the launches change.
  struct Life {
    std::vector<std::vector<int>> touches;  // by version: positions, ascending
    std::vector<int64_t> alive;             // by position
    int64_t peak = 0;
    int fullest = 0;  // the first position with that many bytes
    int count = 0;    // positions with that many
    int last(int version, const SequenceFacts& facts, const KernelSequence& sequence) const;
  };
  Life life(const SequenceFacts& facts) const;

  // Repeats `units`, in order, before launch `at`; what they read is the newest version among them, else `sources`
  // (base -> version). Gives the new version of every base they write.
  std::map<int, int> repeat(const SequenceFacts& facts, const std::vector<int>& units, int at,
                            const std::map<int, int>& sources);
  // Launches from `at` on read `now` instead of `before`.
  void replace(int before, int now, int at);
  // Drops repetitions of which nothing is read.
  void drop_unread();
};

// The kernels of the sequence, bound to a vertex per version; `graph` gets those that are new.
std::vector<LoweredKernel> rebind(const KernelSequence& sequence, const SequenceFacts& facts,
                                  const std::vector<LoweredKernel>& kernels, Graph& graph);

}  // namespace heddle
