#include "autograd/rules.h"
#include "core/graph/functions.h"
#include "core/graph/primitives.h"

namespace heddle::autograd {
namespace {

struct Direction {
  int axis;
  bool exclusive, reverse;
};
Direction direction_of(const RuleCall& call) {
  const auto& ints = call.node.attrs.ints;
  return {static_cast<int>(ints[0]), ints[1] != 0, ints[2] != 0};
}

// Every element counts in the results from its own place on: a sum the other way.
void running_sum(RuleCall& call) {
  const Direction d = direction_of(call);
  call.result[0] = cumsum(call.g, d.axis, d.exclusive, !d.reverse);
}

// sum of g y / x the other way, where x is not 0. The results from the first zero of a row on are 0; those that hold this zero and no other
// depend on it, by the product of the rest. Nothing depends on what follows it.
void running_product(RuleCall& call) {
  const Direction d = direction_of(call);
  const Tensor &x = call.in[0], &g = call.g;
  const Tensor zero = eq(x, 0.0);
  const Tensor so_far = cumsum(cast(zero, DType::f32), d.axis, false, d.reverse);
  const Tensor first = zero && eq(so_far, 1.0);
  const Tensor held = d.exclusive ? cumsum(cast(zero, DType::f32), d.axis, true, d.reverse) : so_far;
  const Tensor rest = cumprod(where(first, 1.0, x), d.axis, d.exclusive, d.reverse);
  const Tensor at_zero = cumsum(g * where(eq(held, 1.0), rest, 0.0), d.axis, d.exclusive, !d.reverse);
  const Tensor elsewhere = cumsum(g * call.out, d.axis, d.exclusive, !d.reverse) / where(zero, 1.0, x);
  call.result[0] = where(first, at_zero, where(zero, 0.0, elsewhere));
}

}  // namespace

void add_scan_rules(RuleTable& table) {
  table[&ops::cumsum_op].rule = running_sum;
  table[&ops::cumprod_op].rule = running_product;
}

}  // namespace heddle::autograd
