// Gradients of attention: the fused rows for the first order, their decomposition for higher ones.
#include "heddle/autograd/autograd.h"
#include "heddle/autograd/rules.h"
#include "heddle/core/functions/functions.h"
#include "heddle/core/functions/nn/attention_problem.h"
#include "heddle/core/functions/nn/attention_rows.h"
#include "heddle/core/op/primitives.h"

namespace heddle::autograd {
namespace {

Tensor wide(const Tensor& x) { return x.dtype() == DType::f64 ? x : cast(x, DType::f32); }

class Rows {
 public:
  Rows(RuleCall& call) : call_(call), p(attention_problem(call.node)), inputs_(call.node.inputs) {
    // Only gradient rows read the logarithms, and those are not differentiated by them: they have no cotangent.
    const Tensor logarithms = attention_logarithms(call.out, p);
    const Tensor g = attention_result(call.g, p), delta = sum(wide(g) * wide(attention_result(call.out, p)), {3});
    for (const Tensor& x : {permute(g, {0, 2, 1, 3}), logarithms, delta}) inputs_.push_back(x.node());
  }

  Tensor row(const OpDef& op, const Shape& shape, DType dtype) const {
    return Tensor(make_node(op, inputs_, call_.node.attrs, shape, dtype));
  }

 private:
  RuleCall& call_;

 public:
  AttentionProblem p;

 private:
  std::vector<NodePtr> inputs_;
};

void bias_rule(RuleCall& call, const Rows& rows) {
  const size_t at = static_cast<size_t>(rows.p.bias);
  const Tensor& bias = call.in[at];
  const Tensor slopes = rows.row(ops::attention_bias_gradient_op, bias.shape().with(3, rows.p.keys), bias.dtype());
  call.result[at] = bias.dim(3) == rows.p.keys ? slopes : sum(slopes, {3}, true);
}

void attention_rule(RuleCall& call) {
  const Rows rows(call);
  const AttentionProblem& p = rows.p;
  const DType t = call.node.dtype;
  if (call.wants(0)) {
    const Tensor queries = rows.row(ops::attention_query_gradient_op, Shape{p.batch, p.queries, p.heads, p.size}, t);
    call.result[0] = permute(queries, {0, 2, 1, 3});
  }
  if (call.wants(1) || call.wants(2)) {
    const Tensor both = rows.row(ops::attention_key_gradient_op, attention_key_gradient_shape(p), t);
    if (call.wants(1)) call.result[1] = attention_gradient_of_keys(both, p);
    if (call.wants(2)) call.result[2] = attention_gradient_of_values(both, p);
  }
  if (p.bias >= 0 && call.wants(static_cast<size_t>(p.bias))) bias_rule(call, rows);
}

// What `make` records, tracking, whatever the thread's mode is.
template <class F>
Tensor recorded(const F& make) {
  struct Scope {
    bool before = grad_mode();
    Scope() { set_grad_mode(true); }
    ~Scope() { set_grad_mode(before); }
  } scope;
  return make();
}

// The same function of aliases of its inputs is differentiated in their place: no path leads from one alias to another
// through what the inputs have in common.
void gradient_rule(RuleCall& call) {
  Node twin;
  twin.op = call.node.op;
  twin.attrs = call.node.attrs;
  twin.shape = call.node.shape;
  twin.dtype = call.node.dtype;
  twin.device = call.node.device;
  const AttentionProblem p = attention_problem(call.node);
  std::vector<Tensor> aliases;
  std::vector<size_t> positions;
  for (size_t i = 0; i < call.in.size(); ++i) {
    const Tensor& x = call.in[i];
    const bool differentiable = static_cast<int>(i) != p.stats && is_float(x.dtype()) && call.wants(i);
    if (!differentiable) {
      twin.inputs.push_back(call.node.inputs[i]);
      continue;
    }
    const Tensor alias =
        recorded([&] { return Tensor(make_node(ops::reshape_op, {x.node()}, {}, x.shape(), x.dtype())); });
    twin.inputs.push_back(alias.node());
    aliases.push_back(alias);
    positions.push_back(i);
  }
  if (aliases.empty()) return;
  const Tensor outputs[] = {recorded([&] { return call.node.op->decompose(twin); })}, cotangents[] = {call.g};
  const std::vector<Tensor> gradients = vjp(outputs, aliases, cotangents);
  for (size_t i = 0; i < gradients.size(); ++i) call.result[positions[i]] = gradients[i];
}

}  // namespace

void add_attention_rules(RuleTable& table) {
  table[&ops::attention_op].rule = attention_rule;
  for (const OpDef* op :
       {&ops::attention_query_gradient_op, &ops::attention_key_gradient_op, &ops::attention_bias_gradient_op}) {
    table[op].rule = gradient_rule;
  }
}

}  // namespace heddle::autograd
