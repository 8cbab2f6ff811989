#include "heddle/autograd/batching.h"

#include "heddle/core/functions/functions.h"
#include "heddle/core/graph/custom.h"
#include "heddle/core/graph/loop.h"
#include "heddle/core/op/primitives.h"
#include "heddle/core/op/user_row.h"

namespace heddle::autograd {
namespace {

Attrs shifted(Attrs attrs) {
  for (int64_t& axis : attrs.ints) ++axis;
  return attrs;
}

// The inputs have one shape, which is that of the node.
Tensor elementwise(const BatchCall& call) {
  std::vector<Tensor> inputs;
  for (size_t i = 0; i < call.in.size(); ++i) inputs.push_back(call.lifted(i));
  return call.record(inputs, call.attrs(), call.shape());
}

// attrs.ints are axes.
Tensor over_axes(const BatchCall& call) { return call.record({call.in[0]}, shifted(call.attrs()), call.shape()); }

Tensor cross_entropy_rows(const BatchCall& call) {
  const Shape& logits = call.example(0);
  const int64_t rows = call.size * logits[0];
  const Tensor all =
      call.record({reshape(call.lifted(0), Shape{rows, logits[1]}), reshape(call.lifted(1), Shape{rows})}, call.attrs(),
                  Shape{rows});
  return reshape(all, call.shape());
}

// The key is that of the draw for one example; the draw for all is a larger one.
Tensor draw(const BatchCall& call) { return call.record({call.in[0]}, call.attrs(), call.shape()); }

const BatchRow& user_batch_row(const OpDef& op) {
  static const BatchRow element{elementwise, {}}, body{user_body_batched, {}};
  return op.kind == OpKind::elementwise ? element : body;
}

BatchTable make_table() {
  BatchTable table;
  for (const OpDef* op : all_ops()) {
    if (op->kind == OpKind::elementwise) table[op].rule = elementwise;
    if (op->kind == OpKind::reduce) table[op].rule = over_axes;
  }
  for (const OpDef* op : {&ops::softmax_op, &ops::log_softmax_op, &ops::logsumexp_op}) table[op].rule = over_axes;
  table[&ops::cross_entropy_op].rule = cross_entropy_rows;
  table[&ops::random_uniform_op].rule = draw;
  add_movement_batching(table);
  add_index_batching(table);
  add_contraction_batching(table);
  add_attention_batching(table);
  add_linalg_batching(table);
  add_collective_batching(table);
  add_custom_batching(table);
  for (const OpDef* op : {&ops::leaf_op, &ops::full_op, &ops::iota_op}) table[op].reason = "it depends on no example";
  table[&ops::loop_arg_op].reason = "it is a carry or slice of a loop around vmap";
  for (const OpDef* op : {&ops::loop_op, &ops::loop_result_op})
    table[op].reason = "yes: vmap makes one loop over all examples (autograd/vmap.cpp)";
  table[&ops::while_result_op].reason = "the lengths of unbounded loops would differ between examples";
  table[&ops::assign_op].reason = "every example would write another value";
  return table;
}

}  // namespace

Tensor BatchCall::lifted(size_t i) const {
  if (mapped[i]) return in[i];
  return expand(unsqueeze(in[i], 0), with_axis(in[i].shape()));
}

Tensor BatchCall::record(const std::vector<Tensor>& inputs, Attrs attrs, const Shape& shape) const {
  std::vector<NodePtr> nodes;
  for (const Tensor& input : inputs) nodes.push_back(input.node());
  return Tensor(make_node(*node.op, std::move(nodes), std::move(attrs), shape, node.dtype));
}

const BatchRow* find_batching(const OpDef& op) {
  static const BatchTable table = make_table();
  if (as_user(op) != nullptr) return &user_batch_row(op);
  const auto found = table.find(&op);
  return found == table.end() ? nullptr : &found->second;
}

std::string batching_status(const OpDef& op) {
  const BatchRow* row = find_batching(op);
  if (row != nullptr) return row->rule != nullptr ? "yes" : std::string(row->reason);
  return op.decompose != nullptr ? "by its decomposition" : "no rule: add one to autograd/batching_*.cpp";
}

}  // namespace heddle::autograd
