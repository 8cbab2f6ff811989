#include "heddle/core/specialise/recompute.h"

#include <algorithm>
#include <vector>

#include "heddle/core/ir/access.h"
#include "heddle/core/op/primitives.h"

namespace heddle {
namespace {

class Recomputer {
 public:
  explicit Recomputer(Graph graph) : in_(std::move(graph)), to_(in_.nodes.size(), -1), copy_(in_.nodes.size(), -1) {
    // What is stored for somebody to see is read from there; constants and leaves cost nothing.
    for (const IrOutput& output : in_.outputs) {
      IrNode& node = in_.nodes[output.node];
      if (node.keep == Keep::inside) node.keep = Keep::result;
    }
    for (IrNode& node : in_.nodes) {
      if (node.op->kind == OpKind::leaf || node.op->kind == OpKind::constant) node.keep = Keep::result;
    }
  }

  Graph run() {
    out_ = in_.over_same_leaves();
    for (size_t i = 0; i < in_.nodes.size(); ++i) {
      IrNode node = in_.nodes[i];
      for (int& input : node.inputs) input = node.keep == Keep::plain && is_inside(input) ? copy(input) : to_[input];
      to_[i] = out_.add(std::move(node));
    }
    for (const IrOutput& output : in_.outputs) out_.outputs.push_back({to_[output.node], output.assign_slot});
    return std::move(out_);
  }

 private:
  bool is_inside(int id) const { return in_.nodes[id].keep == Keep::inside; }

  // Copies `root` and the marked vertices below it; iterative, as a block may be deep.
  int copy(int root) {
    std::vector<int> stack{root};
    while (!stack.empty()) {
      const int id = stack.back();
      if (copy_[id] >= 0) {
        stack.pop_back();
        continue;
      }
      const std::vector<int>& inputs = in_.nodes[id].inputs;
      const auto missing =
          std::find_if(inputs.begin(), inputs.end(), [&](int input) { return is_inside(input) && copy_[input] < 0; });
      if (missing != inputs.end()) {
        stack.push_back(*missing);
        continue;
      }
      IrNode node = in_.nodes[id];
      for (int& input : node.inputs) input = is_inside(input) ? copy_[input] : to_[input];
      node.keep = Keep::plain;
      copy_[id] = out_.add(std::move(node));
      stack.pop_back();
    }
    return copy_[root];
  }

  Graph in_;
  Graph out_;
  std::vector<int> to_;
  std::vector<int> copy_;
};

// Casts to fewer bytes of what lies in memory anyway: copies of it that need not be kept.
class Casts {
 public:
  explicit Casts(Graph graph) : in_(std::move(graph)), readers_(in_.nodes.size(), 0) {
    for (const IrNode& node : in_.nodes) {
      if (is_view_op(*node.op)) continue;
      for (const int input : node.inputs) ++readers_[behind_views(input)];
    }
    for (size_t i = 0; i < in_.nodes.size(); ++i) {
      if (!narrows(in_.nodes[i])) readers_[i] = 0;
    }
    for (const IrOutput& output : in_.outputs) readers_[behind_views(output.node)] = 0;
  }

  // Each of few readers has its own.
  Graph separated() {
    if (std::none_of(readers_.begin(), readers_.end(), &few)) return std::move(in_);
    Graph out = in_.over_same_leaves();
    std::vector<int> to(in_.nodes.size());
    std::vector<bool> read(in_.nodes.size(), false);
    for (size_t i = 0; i < in_.nodes.size(); ++i) {
      IrNode node = in_.nodes[i];
      for (int& input : node.inputs) {
        const int base = behind_views(input);
        const bool again = !is_view_op(*node.op) && few(readers_[base]) && read[base];
        if (!is_view_op(*node.op)) read[base] = true;
        input = again ? copy(input, to, out) : to[input];
      }
      to[i] = out.add(std::move(node));
    }
    for (const IrOutput& output : in_.outputs) out.outputs.push_back({to[output.node], output.assign_slot});
    return out;
  }

 private:
  // Beyond that keeping it moves fewer bytes than reading the original again.
  static bool few(int readers) { return readers > 1 && readers <= 3; }

  int behind_views(int id) const {
    while (is_view_op(*in_.nodes[id].op)) id = in_.nodes[id].inputs[0];
    return id;
  }

  bool narrows(const IrNode& node) const {
    if (node.op != &ops::cast_op || node.once) return false;
    const IrNode& base = in_.nodes[behind_views(node.inputs[0])];
    return base.leaf >= 0 && in_.leaves[base.leaf].slot >= 0 && size_of(node.dtype) < size_of(base.dtype);
  }

  // A view of a cast, both made anew.
  int copy(int id, const std::vector<int>& to, Graph& out) const {
    std::vector<int> chain{id};
    while (is_view_op(*in_.nodes[chain.back()].op)) chain.push_back(in_.nodes[chain.back()].inputs[0]);
    int made = to[in_.nodes[chain.back()].inputs[0]];
    for (auto at = chain.rbegin(); at != chain.rend(); ++at) {
      IrNode node = in_.nodes[*at];
      node.inputs[0] = made;
      made = out.add(std::move(node));
    }
    return made;
  }

  Graph in_;
  std::vector<int> readers_;  // by vertex that is such a cast: how many read it, through views or not
};

}  // namespace

Graph recompute(Graph graph) {
  graph = Casts(std::move(graph)).separated();
  const bool any =
      std::any_of(graph.nodes.begin(), graph.nodes.end(), [](const IrNode& node) { return node.keep == Keep::inside; });
  return any ? Recomputer(std::move(graph)).run() : graph;
}

}  // namespace heddle
