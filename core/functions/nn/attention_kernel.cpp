#include "heddle/core/functions/nn/attention_kernel.h"

#include <algorithm>

#include "heddle/core/op/primitives.h"

namespace heddle {

const OpDef attention_gradients_op{.name = "attention_gradients",
                                   .kind = OpKind::body,
                                   .arity = ops::attention_query_gradient_op.arity,
                                   .rule = DTypeRule::any,
                                   .doc = "of keys, values and queries",
                                   .attrs = AttrsForm::attention};

AttentionSizes attention_sizes(const AttentionProblem& p, DType dtype) {
  AttentionSizes s;
  s.batch = p.batch;
  s.heads = p.heads;
  s.group = p.group();
  s.queries = p.queries;
  s.keys = p.keys;
  s.size = std::max(p.size, p.value_size);
  s.dtype = dtype;
  s.causal = p.causal;
  s.bias = p.bias >= 0;
  s.mask = p.mask >= 0;
  s.lengths = p.lengths >= 0;
  s.dropout = p.key >= 0;
  return s;
}

AttentionGradient attention_gradient(const OpDef& op, const Shape& shape, const AttentionProblem& p) {
  AttentionGradient g;
  if (&op == &ops::attention_key_gradient_op) g.which = 1;
  if (&op == &attention_gradients_op) g.which = 3;
  if (&op != &ops::attention_bias_gradient_op) return g;
  g.which = 2;
  g.reduce_batch = shape[0] == 1 && p.batch > 1;
  g.reduce_heads = shape[1] == 1 && p.heads > 1;
  g.reduce_queries = shape[2] == 1 && p.queries > 1;
  return g;
}

// How many columns one work item runs over.
int64_t attention_columns(const AttentionProblem& p, const AttentionGradient& g) {
  if (g.which == 0) return p.keys;
  if (g.which == 1) return p.group() * p.queries;
  if (g.which == 3) return p.group() * p.queries * p.keys;  // no device with a limit takes it
  return (g.reduce_batch ? p.batch : 1) * (g.reduce_heads ? p.heads : 1) * p.queries;
}

bool attention_takes(const Node& node) {
  return attention_takes(*node.op, node.shape, attention_problem(node), node.inputs[0]->dtype, node.device->caps());
}

bool attention_takes(const OpDef& op, const Shape& shape, const AttentionProblem& p, DType dtype, const Caps& caps) {
  if (!attention_has_kernel(p, dtype)) return false;
  const bool forward = &op == &ops::attention_op;
  const AttentionGradient g = attention_gradient(op, shape, p);
  const AttentionSizes s = attention_sizes(p, dtype);
  if (forward && !attention_pays(caps, s)) return false;
  if (caps.max_loop_iterations == UINT64_MAX) return true;
  const Bindings tunables = forward ? pick_attention(caps, s) : pick_attention_gradient(caps, s, g);
  const int64_t columns =
      forward ? std::min(p.keys, attention_chunk(p.keys, pick_attention_splits(caps, s))) : attention_columns(p, g);
  return static_cast<uint64_t>(attention_iterations(tunables, columns, std::max(p.size, p.value_size))) <=
         caps.max_loop_iterations;
}

}  // namespace heddle
