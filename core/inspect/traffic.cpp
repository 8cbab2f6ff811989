#include "heddle/core/inspect/traffic.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "heddle/core/ir/kernel_cost.h"
#include "heddle/core/lower/operand.h"

namespace heddle {
namespace {

double as_double(int64_t n) { return static_cast<double>(n); }

// Elements of a view that lie in different places.
int64_t distinct(const View& view) {
  int64_t count = 1;
  for (int d = 0; d < view.shape.rank(); ++d) count *= view.strides[d] == 0 && view.shape[d] > 0 ? 1 : view.shape[d];
  return count;
}

class GroupFacts {
 public:
  GroupFacts(const ScheduledGraph& scheduled, const Group& group)
      : scheduled_(scheduled), graph_(scheduled.graph), group_(group) {}

  void add_to(KernelFacts& facts) const {
    if (updates_operand(scheduled_, group_)) return update(facts);
    read(facts);
    for (const Member& member : group_.members) {
      const IrNode& node = graph_.nodes[static_cast<size_t>(member.node)];
      if (member.stored)
        facts.written_bytes += as_double(node.shape.numel()) * static_cast<double>(size_of(node.dtype));
      facts.flops += operations(node, runs(member.level));
    }
    for (const int id : group_.inlined) {
      const IrNode& node = graph_.nodes[static_cast<size_t>(id)];
      facts.flops += operations(node, as_double(node.shape.numel()));
    }
  }

  // Movement says where values lie, not what is computed.
  std::string ops() const {
    std::string text;
    const auto add = [&](int id) {
      const OpDef& op = *graph_.nodes[static_cast<size_t>(id)].op;
      if (op.kind == OpKind::movement || op.kind == OpKind::constant) return;
      text += fmt::format("{}{}", text.empty() ? "" : " ", op.name);
    };
    std::vector<int> all = group_.inlined;
    for (const Member& member : group_.members) all.push_back(member.node);
    std::sort(all.begin(), all.end());
    for (const int id : all) add(id);
    return text.empty() ? std::string(graph_.nodes[static_cast<size_t>(group_.members.back().node)].op->name) : text;
  }

 private:
  // Only what the other operands say is read and written.
  void update(KernelFacts& facts) const {
    const std::vector<int>& inputs = graph_.nodes[static_cast<size_t>(group_.anchor)].inputs;
    for (size_t i = 1; i < inputs.size(); ++i) {
      const IrNode& node = graph_.nodes[static_cast<size_t>(inputs[i])];
      facts.read_bytes += as_double(node.shape.numel()) * static_cast<double>(size_of(node.dtype));
    }
    const IrNode& last = graph_.nodes[static_cast<size_t>(inputs.back())];
    facts.written_bytes += as_double(last.shape.numel()) * static_cast<double>(size_of(last.dtype));
  }

  double runs(Level level) const {
    return as_double(group_.domain.numel()) * (level == Level::full ? as_double(group_.inner.numel()) : 1.0);
  }

  double operations(const IrNode& node, double times) const {
    return node.op->kind == OpKind::elementwise ? times * node.op->cost : vertex_operations(graph_, node);
  }

  // At most so many different elements of the vertex are met through this path.
  int64_t met(const Use& use) const {
    int64_t count = 1;
    for (size_t d = 0; d < use.path.base.size(); ++d) {
      const Index& index = use.path.base[d];
      if (!index.is_literal()) count *= use.path.shape[static_cast<int>(d)];
    }
    for (const int op : use.path.ops) {
      const IrNode& node = graph_.nodes[static_cast<size_t>(op)];
      count = std::min({count, node.shape.numel(), graph_.nodes[static_cast<size_t>(node.inputs[0])].shape.numel()});
    }
    return use.operand ? count : std::min(count, static_cast<int64_t>(runs(use.level)));
  }

  // From the first to the last byte of some views, and what is met of each, added up.
  struct Stretch {
    int64_t begin = INT64_MAX, end = 0, met = 0;
    void add(const View& view, int64_t bytes, int64_t more) {
      const auto [first, last] = view.extent();
      begin = std::min(begin, first * bytes);
      end = std::max(end, (last + 1) * bytes);
      met += more;
    }
  };

  void read(KernelFacts& facts) const {
    std::map<int, int64_t> elements;
    for (const Use& use : external_uses(graph_, group_, scheduled_.free_nodes)) elements[use.node] += met(use);
    std::map<int, Stretch> storages;  // of leaves, by slot: views of one storage may overlap
    for (const auto& [id, count] : elements) {
      const IrNode& node = graph_.nodes[static_cast<size_t>(id)];
      const LeafInfo* leaf = node.leaf >= 0 ? &graph_.leaves[static_cast<size_t>(node.leaf)] : nullptr;
      const int64_t bytes = static_cast<int64_t>(size_of(node.dtype)),
                    met = bytes * std::min(count, leaf ? distinct(leaf->view) : node.shape.numel());
      if (leaf && leaf->slot >= 0)
        storages[leaf->slot].add(leaf->view, bytes, met);
      else
        facts.read_bytes += as_double(met);
    }
    for (const auto& [slot, stretch] : storages)
      facts.read_bytes += as_double(std::min(stretch.met, stretch.end - stretch.begin));
  }

  const ScheduledGraph& scheduled_;
  const Graph& graph_;
  const Group& group_;
};

// "add mul, 24 x (add mul sqrt)" for the groups of one launch.
std::string joined(const std::vector<std::string>& ops) {
  std::vector<std::pair<std::string, int>> counted;
  for (const std::string& text : ops) {
    const auto same = std::find_if(counted.begin(), counted.end(), [&](const auto& c) { return c.first == text; });
    if (same == counted.end())
      counted.emplace_back(text, 1);
    else
      ++same->second;
  }
  std::string all;
  for (const auto& [text, count] : counted)
    all += (all.empty() ? "" : ", ") + (count == 1 ? text : fmt::format("{} x ({})", count, text));
  return all;
}

}  // namespace

std::vector<KernelFacts> kernel_facts(const ScheduledGraph& scheduled, std::span<const LoweredKernel> kernels) {
  std::map<int, const Group*> writer;
  for (const Group& group : scheduled.groups) {
    if (group.kind == GroupKind::join) continue;
    for (const Member& member : group.members) {
      if (member.stored) writer[member.node] = &group;
    }
  }
  std::vector<KernelFacts> all;
  for (const LoweredKernel& kernel : kernels) {
    KernelFacts facts{.name = kernel.source.name, .source = kernel.source.hash()};
    std::vector<const Group*> groups;
    std::vector<std::string> ops;
    for (const int vertex : kernel.writes) {
      const auto found = writer.find(vertex);
      if (found == writer.end() || std::find(groups.begin(), groups.end(), found->second) != groups.end()) continue;
      groups.push_back(found->second);
      const GroupFacts group(scheduled, *found->second);
      group.add_to(facts);
      ops.push_back(group.ops());
    }
    facts.ops = joined(ops);
    all.push_back(std::move(facts));
  }
  return all;
}

}  // namespace heddle
