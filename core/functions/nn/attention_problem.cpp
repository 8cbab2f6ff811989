#include "heddle/core/functions/nn/attention_problem.h"

#include <vector>

#include "heddle/core/op/attrs.h"

namespace heddle {

AttentionProblem attention_problem(const Attrs& attrs, std::span<const Shape> inputs, DType t) {
  AttentionProblem p;
  p.batch = inputs[0][0];
  p.heads = inputs[0][1];
  p.queries = inputs[0][2];
  p.size = inputs[0][3];
  p.key_heads = inputs[1][1];
  p.keys = inputs[1][2];
  p.value_size = inputs[2][3];
  const AttentionAttrs named(attrs);
  p.causal = named.causal;
  int next = 3;
  if (named.bias) p.bias = next++;
  if (named.mask) p.mask = next++;
  if (named.lengths) p.lengths = next++;
  if (named.key) p.key = next++;
  if (next < static_cast<int>(inputs.size())) {
    p.cotangent = next++;
    p.stats = next++;
    p.delta = next++;
  }
  p.splits = named.splits;
  p.scale = named.scale;
  p.drop = named.drop;
  p.parts = p.splits == 1 && (t == DType::f16 || t == DType::bf16) ? 3 : 1;
  return p;
}

AttentionProblem attention_problem(const Node& node) {
  std::vector<Shape> shapes;
  for (const NodePtr& input : node.inputs) shapes.push_back(input->shape);
  return attention_problem(node.attrs, shapes, node.inputs[0]->dtype);
}

bool attention_has_kernel(const AttentionProblem& p, DType t) {
  const bool any = p.batch > 0 && p.heads > 0 && p.queries > 0 && p.keys > 0 && p.size > 0 && p.value_size > 0;
  return any && (t == DType::f32 || t == DType::f16 || t == DType::bf16) && p.size <= 256 && p.value_size <= 256;
}

}  // namespace heddle
