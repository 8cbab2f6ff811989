// RowPhases: in how many passes over its rows a reduce group is computed, and what a pass should keep for later ones.
//
// Purpose: a pass computes every reduction whose inputs are known by then (softmax: the maximum, then the sum); a last
// pass computes what is stored for every element. A dear value of an element that several passes need (softmax's
// exponential) is kept from the first to the last. Invariants: reductions of pass p have p reductions below them, so
// that their values are known when pass p + 1 starts. Thread safety: plain value; refers to the graph and group it was
// made from.
#pragma once

#include <map>
#include <set>
#include <vector>

#include "heddle/core/ir/groups.h"
#include "heddle/core/lower/reducer.h"

namespace heddle {

// A member of level full that is computed in pass `first` and read again in a later one.
struct KeptValue {
  int node = -1;
  size_t first = 0;
};

class RowPhases {
 public:
  RowPhases(const ScheduledGraph& scheduled, const Group& group);

  // The reductions of each pass; the last pass, which only stores, has none and is not listed.
  const std::vector<std::vector<Reducer>>& phases() const { return phases_; }
  // Longest chain of reductions below a member, itself included.
  int depth(int node) const { return depth_.at(node); }
  const std::vector<KeptValue>& kept() const { return kept_; }
  bool any(bool (*holds)(const Reducer&)) const;

 private:
  const Graph& graph() const { return scheduled_.graph; }
  bool is_inside(int id) const;
  int reductions_below(int id);
  void dear_members(int id, std::set<int>& seen, std::set<int>& found) const;
  void find_kept();

  const ScheduledGraph& scheduled_;
  const Group& group_;
  std::map<int, int> depth_;
  std::vector<std::vector<Reducer>> phases_;
  std::vector<KeptValue> kept_;
};

}  // namespace heddle
