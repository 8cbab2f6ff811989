#include "autograd/rules.h"
#include "core/graph/functions.h"
#include "core/graph/primitives.h"

namespace heddle::autograd {

// c = a b: da = g b^T, db = a^T g. Transposes are views; batch dimensions are equal here (broadcasting is an expand
// node, whose own rule sums), so no outer products appear.
void add_contraction_rules(RuleTable& table) {
  table[&ops::matmul_op].rule = [](RuleCall& call) {
    if (call.wants(0)) call.result[0] = matmul(call.g, transpose(call.in[1]));
    if (call.wants(1)) call.result[1] = matmul(transpose(call.in[0]), call.g);
  };
}

}  // namespace heddle::autograd
