#include "core/exec/recompute.h"

#include <algorithm>
#include <vector>

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
      const auto missing = std::find_if(inputs.begin(), inputs.end(), [&](int input) { return is_inside(input) && copy_[input] < 0; });
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

}  // namespace

Graph recompute(Graph graph) {
  const bool any = std::any_of(graph.nodes.begin(), graph.nodes.end(), [](const IrNode& node) { return node.keep == Keep::inside; });
  return any ? Recomputer(std::move(graph)).run() : graph;
}

}  // namespace heddle
