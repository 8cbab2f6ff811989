#include "heddle/autograd/rules.h"
#include "heddle/core/functions/functions.h"
#include "heddle/core/functions/linalg/packed.h"
#include "heddle/core/op/packed_rows.h"
#include "heddle/core/op/primitives.h"

namespace heddle::autograd {

// c = a b: da = g b^T, db = a^T g. Transposes are views; batch dimensions are equal here (broadcasting is an expand
// node, whose own rule sums), so no outer products appear.
void add_contraction_rules(RuleTable& table) {
  table[&ops::matmul_op].rule = [](RuleCall& call) {
    if (call.wants(0)) call.result[0] = matmul(call.g, transpose(call.in[1]));
    if (call.wants(1)) call.result[1] = matmul(transpose(call.in[0]), call.g);
  };
  // y = x w^T with packed w, which has no gradient.
  table[&ops::matmul_packed_op].rule = [](RuleCall& call) {
    if (call.wants(0)) call.result[0] = packed::input_grad(call.g, call.in[1], block_type_of(call.node.attrs));
  };
  table[&ops::matmul_packed_input_grad_op].rule = [](RuleCall& call) {
    if (call.wants(0)) call.result[0] = matmul_packed(call.g, call.in[1], block_type_of(call.node.attrs));
  };
  // y = conv(x, w) is linear in both, and so are its two gradients: the three are each other's gradients, in every
  // order.
  table[&ops::conv_op].rule = [](RuleCall& call) {
    const Attrs& attrs = call.node.attrs;
    if (call.wants(0)) call.result[0] = conv::input_grad(call.g, call.in[1], attrs, call.in[0].shape());
    if (call.wants(1)) call.result[1] = conv::weight_grad(call.in[0], call.g, attrs, call.in[1].shape());
  };
  table[&ops::conv_input_grad_op].rule = [](RuleCall& call) {  // dx = conv_input_grad(g, w); call.g has dx's shape
    const Attrs& attrs = call.node.attrs;
    if (call.wants(0)) call.result[0] = conv::forward(call.g, call.in[1], attrs, call.in[0].shape());
    if (call.wants(1)) call.result[1] = conv::weight_grad(call.g, call.in[0], attrs, call.in[1].shape());
  };
  table[&ops::conv_weight_grad_op].rule = [](RuleCall& call) {  // dw = conv_weight_grad(x, g); call.g has dw's shape
    const Attrs& attrs = call.node.attrs;
    if (call.wants(0)) call.result[0] = conv::input_grad(call.in[1], call.g, attrs, call.in[0].shape());
    if (call.wants(1)) call.result[1] = conv::forward(call.in[0], call.g, attrs, call.in[1].shape());
  };
}

}  // namespace heddle::autograd
