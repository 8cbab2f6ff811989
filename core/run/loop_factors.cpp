#include "heddle/core/run/loop_factors.h"

#include <vector>

#include "heddle/core/ir/dynamic_sizes.h"
#include "heddle/core/run/turned_factors.h"

namespace heddle {
namespace {

// A leaf's readers, as far as the question goes.
struct Uses {
  bool turned = false;  // the right operand of a product of few rows, through a transpose
  bool other = false;
};

bool has_few_rows(const IrNode& product) {
  const int rank = product.shape.rank();
  return rank == 2 && product.shape[0] <= most_rows_of_turned && product.shape[1] >= least_side_of_turned;
}

// By vertex. What a transpose is read as counts for what it transposes.
std::vector<Uses> uses_of(const Graph& body) {
  std::vector<Uses> uses(body.nodes.size());
  for (const IrOutput& output : body.outputs) uses[static_cast<size_t>(output.node)].other = true;
  for (size_t i = body.nodes.size(); i-- > 0;) {
    const IrNode& node = body.nodes[i];
    for (size_t n = 0; n < node.inputs.size(); ++n) {
      const size_t input = static_cast<size_t>(node.inputs[n]);
      Uses& of = uses[input];
      const bool through = is_transpose(body.nodes[input]);
      if (is_transpose(node) && !through) {
        of.turned = of.turned || uses[i].turned;
        of.other = of.other || uses[i].other;
      } else if (node.op == &ops::matmul_op && n == 1 && through && has_few_rows(node)) {
        of.turned = true;
      } else {
        of.other = true;
      }
    }
  }
  return uses;
}

}  // namespace

std::set<int> turn_factors(Graph& body, int first) {
  std::set<int> slots;
  const std::vector<Uses> uses = uses_of(body);
  for (size_t i = 0; i < body.nodes.size(); ++i) {
    const IrNode& node = body.nodes[i];
    if (node.leaf < 0 || node.shape.rank() != 2 || !uses[i].turned || uses[i].other) continue;
    LeafInfo& leaf = body.leaves[static_cast<size_t>(node.leaf)];
    const bool large = node.shape[0] >= least_side_of_turned && node.shape[1] >= least_side_of_turned;
    if (leaf.slot < first || !leaf.view.is_dense() || !large) continue;
    if (dimension_varies(node, 0) || dimension_varies(node, 1)) continue;
    leaf.view.strides[0] = 1;
    leaf.view.strides[1] = node.shape[0];
    slots.insert(leaf.slot);
  }
  return slots;
}

}  // namespace heddle
