#include "heddle/core/simplify/patterns.h"

#include <algorithm>
#include <unordered_set>

namespace heddle {

Readers::Readers(const Graph& graph) : readers_(graph.nodes.size()), output_(graph.nodes.size(), false) {
  for (size_t id = 0; id < graph.nodes.size(); ++id) {
    for (const int input : graph.nodes[id].inputs) readers_[static_cast<size_t>(input)].push_back(static_cast<int>(id));
  }
  for (const IrOutput& output : graph.outputs) output_[static_cast<size_t>(output.node)] = true;
}

bool Readers::only_for(const std::vector<int>& inside, int root) const {
  const std::unordered_set<int> set(inside.begin(), inside.end());
  return std::all_of(inside.begin(), inside.end(), [&](int id) {
    return !is_output(id) && std::all_of(of(id).begin(), of(id).end(),
                                         [&](int reader) { return reader == root || set.contains(reader); });
  });
}

std::optional<Graph> replace_patterns(const Graph& graph, const Caps& caps, PassSet passes) {
  const Readers readers(graph);
  Graph out = graph.over_same_leaves();
  std::vector<int> to(graph.nodes.size(), -1);
  bool any = false;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    IrNode node = graph.nodes[i];
    const size_t before = out.nodes.size();
    const PatternSite site{graph, readers, caps, out, to, static_cast<int>(i)};
    if (passes.has(Pass::attention)) to[i] = match_attention(site);
    if (to[i] < 0 && passes.has(Pass::batch_norm)) to[i] = fold_batch_norm(site);
    if (to[i] >= 0) {
      any = true;
      for (size_t made = before; made < out.nodes.size(); ++made) {
        out.nodes[made].keep = node.keep;
        out.nodes[made].origin = node.origin;
      }
      continue;
    }
    for (int& input : node.inputs) input = to[static_cast<size_t>(input)];
    to[i] = out.add(std::move(node));
  }
  if (!any) return std::nullopt;
  for (const IrOutput& output : graph.outputs)
    out.outputs.push_back({to[static_cast<size_t>(output.node)], output.assign_slot});
  return out;
}

}  // namespace heddle
