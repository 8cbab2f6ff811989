#include "heddle/core/functions/nn/attention_pattern.h"

#include <algorithm>
#include <atomic>

#include "heddle/core/functions/math/elementwise.h"
#include "heddle/core/functions/nn/attention.h"
#include "heddle/core/functions/nn/attention_kernel.h"
#include "heddle/core/functions/nn/attention_problem.h"
#include "heddle/core/functions/shape/create.h"
#include "heddle/core/functions/shape/movement.h"

namespace heddle {
namespace {

// Recorded nodes; what has its value already is a leaf.
struct Recorded {
  using Id = NodePtr;
  const OpDef* op(const NodePtr& id) const { return id->has_value() ? &ops::leaf_op : id->op; }
  const NodePtr& input(const NodePtr& id, size_t n) const { return id->inputs[n]; }
  const Attrs& attrs(const NodePtr& id) const { return id->attrs; }
  const Shape& shape(const NodePtr& id) const { return id->shape; }
  DType dtype(const NodePtr& id) const { return id->dtype; }
};

// The root may have its value; what it was computed from is looked at all the same.
struct BelowRoot : Recorded {
  explicit BelowRoot(const NodePtr& root) : root_(root) {}
  const OpDef* op(const NodePtr& id) const { return id == root_ ? id->op : Recorded::op(id); }
  const NodePtr& root_;
};

// (..., x, y) as (B, H, x, y).
Tensor in_four(const Tensor& x, int rank) { return reshape(x, shape_in_four(x.shape(), rank)); }

bool looks_like_one(const Node& root) {
  if (root.op != &ops::matmul_op || root.inputs.size() != 2) return false;
  const Node* left = root.inputs[0].get();
  while (left->op == &ops::cast_op && !left->inputs.empty()) left = left->inputs[0].get();
  return left->op == &ops::softmax_op || left->op == &ops::div_op || left->op == &ops::mul_op;
}

Tensor hidden_bias(const Tensor& condition, bool keep, double fill) {
  return keep ? where(condition, full({}, 0.0, DType::f32, &condition.device()),
                      full({}, fill, DType::f32, &condition.device()))
              : where(condition, full({}, fill, DType::f32, &condition.device()),
                      full({}, 0.0, DType::f32, &condition.device()));
}

}  // namespace

std::optional<RecognisedAttention> recognise_attention(const NodePtr& root) {
  if (!looks_like_one(*root)) return std::nullopt;
  const BelowRoot source(root);
  const std::optional<AttentionTerms<NodePtr>> terms = AttentionFinder(source).find(root);
  if (!terms) return std::nullopt;
  for (const NodePtr& id : terms->inside) {
    if (id->handles.load(std::memory_order_relaxed) > 0) return std::nullopt;
  }
  RecognisedAttention found{terms->queries, terms->keys, terms->values, nullptr, {}};
  AttentionOptions options;
  options.causal = terms->causal;
  options.scale = terms->scale;
  if (!terms->added.empty() && terms->added.size() + terms->hidden.size() == 1) found.added = terms->added[0];
  for (const NodePtr& bias : terms->added) {
    if (bias->tracks && !found.added) return std::nullopt;
    const Tensor x = in_four(Tensor(bias), terms->rank);
    options.bias = options.bias.defined() ? options.bias + x : x;
  }
  for (const auto& hidden : terms->hidden) {
    const Tensor x = hidden_bias(in_four(Tensor(hidden.condition), terms->rank), hidden.keep, hidden.fill);
    options.bias = options.bias.defined() ? options.bias + x : x;
  }
  const Tensor q = in_four(Tensor(terms->queries), terms->rank),
               k = in_four(transpose(Tensor(terms->keys)), terms->rank),
               v = in_four(Tensor(terms->values), terms->rank);
  if (k.dim(0) != q.dim(0) || k.dim(1) != q.dim(1)) return std::nullopt;
  const Tensor result = scaled_dot_product_attention(q, k, v, options);
  // permute <- reshape <- slice <- the row.
  NodePtr packed = result.node();
  while (packed->op != &ops::attention_op && !packed->inputs.empty()) packed = packed->inputs[0];
  if (packed->op != &ops::attention_op) return std::nullopt;
  const bool has_kernels = root->device->caps().target != Target::none;
  if (!attention_has_kernel(attention_problem(*packed), packed->dtype) || (has_kernels && !attention_takes(*packed)))
    return std::nullopt;
  found.packed = Tensor(packed);
  return found;
}

}  // namespace heddle
