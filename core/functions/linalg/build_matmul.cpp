#include "heddle/core/functions/linalg/build_matmul.h"

#include "heddle/core/functions/linalg/matmul.h"
#include "heddle/core/functions/math/cast.h"
#include "heddle/core/functions/math/elementwise.h"
#include "heddle/core/graph/autocast.h"
#include "heddle/core/graph/node.h"
#include "heddle/core/op/primitives.h"

namespace heddle::build {

const Tensor& part_of_sum(const Tensor& product) {
  if (!is_half(product.dtype())) return product;
  Node* node = product.node().get();
  while (node->op->kind == OpKind::movement && node->inputs.size() == 1 && !node->has_value())
    node = node->inputs[0].get();
  if ((node->op == &ops::matmul_op || node->op == &ops::conv_op) && !node->has_value()) node->attrs.real2 = 1;
  return product;
}

Tensor add_bias(const Tensor& given, const Tensor& bias) {
  const Tensor& product = part_of_sum(given);
  const Tensor total = product + bias;
  return cast(total, autocast_dtype(Autocast::low, total.dtype()));
}

Tensor plain_matmul(const Tensor& a, const Tensor& b) {
  const AutocastScope scope = AutocastScope::off();
  return matmul(a, b);
}

}  // namespace heddle::build
