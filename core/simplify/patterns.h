// Patterns of several vertices that become one, on the simplified graph.
//
// Purpose: what a rule of the engine (simplifier.h) cannot decide, because it asks who else reads a vertex: attention
// written out, normalisations behind a convolution or product. Invariants: a vertex vanishes only where nobody outside
// its pattern reads it; values are the same up to rounding (attention: core/functions/nn/attention_pattern.h). Thread
// safety: pure functions.
#pragma once

#include <optional>
#include <vector>

#include "heddle/core/contract/device.h"
#include "heddle/core/ir/ir.h"
#include "heddle/core/simplify/passes.h"

namespace heddle {

// Who reads what.
class Readers {
 public:
  explicit Readers(const Graph& graph);
  const std::vector<int>& of(int id) const {
    return readers_[static_cast<size_t>(id)];
  }  // each once for each time it reads
  bool is_output(int id) const { return output_[static_cast<size_t>(id)]; }
  // Is every reader of `inside` among them, or `root`?
  bool only_for(const std::vector<int>& inside, int root) const;

 private:
  std::vector<std::vector<int>> readers_;
  std::vector<bool> output_;
};

// The graph with patterns replaced; nothing when there was none. What they leave behind is dead: simplify() again.
std::optional<Graph> replace_patterns(const Graph& graph, const Caps& caps, PassSet passes);

// One vertex looks for its pattern: adds what replaces it to `out`, whose vertices `to` maps from `graph`'s, or answers
// -1.
struct PatternSite {
  const Graph& graph;
  const Readers& readers;
  const Caps& caps;
  Graph& out;
  const std::vector<int>& to;
  int id = -1;
  const IrNode& node() const { return graph.nodes[static_cast<size_t>(id)]; }
  const IrNode& at(int vertex) const { return graph.nodes[static_cast<size_t>(vertex)]; }
};
int match_attention(const PatternSite& site);  // match_attention.cpp
int fold_batch_norm(const PatternSite& site);  // fold_batch_norm.cpp

}  // namespace heddle
