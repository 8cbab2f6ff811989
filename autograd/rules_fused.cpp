#include <limits>

#include "heddle/autograd/rules.h"
#include "heddle/core/functions/functions.h"
#include "heddle/core/op/attrs.h"
#include "heddle/core/op/primitives.h"

namespace heddle::autograd {
namespace {

int axis_of(const RuleCall& call) { return heddle::axis_of(call.node.attrs); }

Tensor wide(const Tensor& reduced, int axis, const Shape& shape) { return expand(unsqueeze(reduced, axis), shape); }

// y (g - sum(g y)).
void softmax_rule(RuleCall& call) {
  const Tensor &y = call.out, &g = call.g;
  call.result[0] = y * (g - sum(g * y, {axis_of(call)}, true));
}

// g - softmax(x) sum(g).
void log_softmax_rule(RuleCall& call) { call.result[0] = call.g - exp(call.out) * sum(call.g, {axis_of(call)}, true); }

// g softmax(x), with softmax(x) = exp(x - out). Where all x are -infinity there is no softmax: the gradient is 0, so
// that masked rows leave others alone.
void logsumexp_rule(RuleCall& call) {
  const Tensor& x = call.in[0];
  const int axis = axis_of(call);
  const Tensor total = where(call.out == -std::numeric_limits<double>::infinity(), 0, call.out);
  call.result[0] = wide(call.g, axis, x.shape()) * exp(x - wide(total, axis, x.shape()));
}

// g (softmax(logits) - one_hot(targets)).
void cross_entropy_rule(RuleCall& call) {
  const Tensor &logits = call.in[0], &targets = call.in[1];
  if (!call.wants(0)) return;
  const Tensor slope = softmax(logits, 1) - one_hot(targets, logits.dim(1), logits.dtype());
  call.result[0] = wide(call.g, 1, logits.shape()) * slope;
}

}  // namespace

void add_fused_rules(RuleTable& table) {
  table[&ops::softmax_op].rule = softmax_rule;
  table[&ops::log_softmax_op].rule = log_softmax_rule;
  table[&ops::logsumexp_op].rule = logsumexp_rule;
  table[&ops::cross_entropy_op].rule = cross_entropy_rule;
}

}  // namespace heddle::autograd
