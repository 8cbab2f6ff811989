#include "core/graph/autocast.h"

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/graph/primitives.h"

namespace heddle {
namespace {

thread_local std::optional<DType> low_dtype;

DType checked(DType low) {
  if (!is_half(low)) throw DTypeError(fmt::format("[AutocastScope] takes f16 or bf16, not {}; AutocastScope::off() switches it off", name_of(low)));
  return low;
}

}  // namespace

AutocastScope::AutocastScope(DType low) : AutocastScope(std::optional(checked(low))) {}
AutocastScope::AutocastScope(std::optional<DType> low) : before_(std::exchange(low_dtype, low)) {}
AutocastScope::~AutocastScope() { low_dtype = before_; }
std::optional<DType> AutocastScope::active() { return low_dtype; }

DType autocast_dtype(Autocast policy, DType t) {
  if (!low_dtype || policy == Autocast::widest || (t != DType::f32 && !is_half(t))) return t;
  return policy == Autocast::low ? *low_dtype : DType::f32;
}
DType autocast_dtype(const OpDef& row, DType t) { return low_dtype ? autocast_dtype(row.autocast, t) : t; }

namespace build {

DType float_dtype(DType t, Autocast policy) { return is_float(t) ? autocast_dtype(policy, t) : DType::f32; }
Tensor as_float(const Tensor& x, Autocast policy) { return cast(x, float_dtype(x.dtype(), policy)); }
const Tensor& part_of_sum(const Tensor& product) {
  if (!is_half(product.dtype())) return product;
  Node* node = product.node().get();
  while (node->op->kind == OpKind::movement && node->inputs.size() == 1 && !node->has_value()) node = node->inputs[0].get();
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

}  // namespace build

}  // namespace heddle
