#include "heddle/core/run/turned_weights.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "heddle/core/ir/dynamic_sizes.h"
#include "heddle/core/ir/groups.h"
#include "heddle/core/run/turned_factors.h"

namespace heddle {
namespace {

// Fewer rows read the matrix as it lies, by dot products; a large matrix is read from memory, where the second copy of
// it is what counts.
constexpr int64_t fewest_rows = 24, largest_matrix = 128 * 1024;

class Turner {
 public:
  explicit Turner(Graph graph) : graph_(std::move(graph)) {}

  // The transposed leaf that a product reads as its right operand, or -1.
  int turned_factor(const IrNode& product) const {
    if (product.op != &ops::matmul_op || product.shape.rank() != 2 || dimension_varies(product, 0)) return -1;
    const int64_t rows = product.shape[0], columns = product.shape[1];
    const int factor = product.inputs[1];
    const bool fits = rows >= fewest_rows && rows <= most_rows_of_turned && columns >= least_side_of_turned;
    return fits && is_turned_weight(at(factor)) ? factor : -1;
  }

  Graph run() {
    const auto turns = [this](const IrNode& node) { return turned_factor(node) >= 0; };
    if (std::none_of(graph_.nodes.begin(), graph_.nodes.end(), turns)) return std::move(graph_);
    Graph out = graph_.over_same_leaves();
    std::vector<int> to(graph_.nodes.size(), -1);
    std::map<int, int> copies;  // by transpose
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      IrNode node = graph_.nodes[i];
      const int factor = turned_factor(node);
      for (int& input : node.inputs) input = to[static_cast<size_t>(input)];
      if (factor >= 0) {
        const auto [copy, fresh] = copies.try_emplace(factor, -1);
        if (fresh) copy->second = add_copy(out, node.inputs[1]);
        node.inputs[1] = copy->second;
      }
      to[i] = out.add(std::move(node));
    }
    for (const IrOutput& output : graph_.outputs)
      out.outputs.push_back({to[static_cast<size_t>(output.node)], output.assign_slot});
    return out;
  }

 private:
  const IrNode& at(int id) const { return graph_.nodes[static_cast<size_t>(id)]; }

  bool is_turned_weight(const IrNode& node) const {
    if (!is_transpose(node)) return false;
    const IrNode& weight = at(node.inputs[0]);
    if (weight.leaf < 0 || weight.dtype != DType::f32) return false;
    const LeafInfo& leaf = graph_.leaves[static_cast<size_t>(weight.leaf)];
    if (leaf.slot < 0 || leaf.view.strides[1] != 1 || is_overwritten(leaf.slot)) return false;
    return std::min(node.shape[0], node.shape[1]) >= least_side_of_turned && node.shape.numel() <= largest_matrix;
  }

  bool is_overwritten(int slot) const {
    return std::any_of(graph_.outputs.begin(), graph_.outputs.end(),
                       [slot](const IrOutput& output) { return output.assign_slot == slot; });
  }

  static int add_copy(Graph& out, int transpose) {
    const IrNode from = out.nodes[static_cast<size_t>(transpose)];
    IrNode copy{&copy_op, {}, {transpose}, from.shape, from.dtype};
    copy.once = true;
    copy.origin = from.origin;
    return out.add(std::move(copy));
  }

  Graph graph_;
};

}  // namespace

Graph turn_weights(Graph graph, const Caps& caps) {
  if (caps.machine() != Machine::cpu_loops) return graph;
  return Turner(std::move(graph)).run();
}

}  // namespace heddle
