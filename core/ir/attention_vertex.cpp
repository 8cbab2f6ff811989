#include "heddle/core/ir/attention_vertex.h"

#include <vector>

#include "heddle/core/ir/dynamic_sizes.h"

namespace heddle {
namespace {

bool wants_four_strides(const AttentionProblem& p, int input) {
  return input < 3 || input == p.bias || input == p.cotangent;
}

}  // namespace

AttentionProblem attention_problem(const Graph& graph, const IrNode& node) {
  std::vector<Shape> shapes;
  for (int input : node.inputs) shapes.push_back(graph.nodes[input].shape);
  return attention_problem(node.attrs, shapes, graph.nodes[node.inputs[0]].dtype);
}

AttentionSizes nominal_sizes(const Graph& graph, const IrNode& node, AttentionSizes s) {
  const IrNode &q = graph.nodes[node.inputs[0]], &k = graph.nodes[node.inputs[1]];
  if (dimension_varies(q, 0)) s.batch = nominal_batch;
  if (dimension_varies(q, 2)) s.queries = nominal_size;
  if (dimension_varies(k, 2)) s.keys = nominal_size;
  return s;
}

// q, k, v, bias and the cotangent may have any strides but that of their elements; the small operands lie densely, the
// logarithms behind the result they belong to.
bool attention_accepts(const IrNode& node, size_t input, const View& view) {
  std::vector<Shape> shapes(node.inputs.size(), Shape{1, 1, 1, 1});
  const AttentionProblem p = attention_problem(node.attrs, shapes, node.dtype);
  const int at = static_cast<int>(input);
  if (at == p.bias) return true;
  if (wants_four_strides(p, at)) return view.shape[3] == 1 || view.strides[3] == 1;
  if (at != p.stats) return view.is_dense();
  View from_start = view;
  from_start.offset = 0;
  return from_start.is_dense();
}

}  // namespace heddle
