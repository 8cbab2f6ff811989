// Attention and its gradients from matrix products, a softmax and random bits: the unfused graph, which holds the
// matrix of scores.
#include <limits>

#include "heddle/core/functions/build.h"
#include "heddle/core/functions/linalg/matmul.h"
#include "heddle/core/functions/math/cast.h"
#include "heddle/core/functions/math/elementwise.h"
#include "heddle/core/functions/math/reduce.h"
#include "heddle/core/functions/nn/attention_problem.h"
#include "heddle/core/functions/shape/create.h"
#include "heddle/core/functions/shape/movement.h"
#include "heddle/core/op/attrs.h"
#include "heddle/core/op/decompose.h"
#include "heddle/core/op/primitives.h"

namespace heddle {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

class Unfused {
 public:
  explicit Unfused(const Node& node)
      : p(attention_problem(node)), node_(node), wide_(node.inputs[0]->dtype == DType::f64 ? DType::f64 : DType::f32) {
    q = input(0);
    k = input(1);
    v = input(2);
    softmax();
    drop();
  }

  Tensor input(int i) const {
    const Tensor x(node_.inputs[static_cast<size_t>(i)]);
    return is_float(x.dtype()) ? cast(x, wide_) : x;
  }
  // (B, H, M, x) <-> (B, J, H / J M, x): the queries that share a key head, one below the other.
  Tensor stacked(const Tensor& x) const {
    return reshape(x, Shape{p.batch, p.key_heads, p.group() * p.queries, x.dim(3)});
  }
  Tensor unstacked(const Tensor& x) const { return reshape(x, Shape{p.batch, p.heads, p.queries, x.dim(3)}); }

  // dS, and with it the rows' common part of all gradients.
  Tensor slopes() const {
    const Tensor products = unstacked(matmul(stacked(input(p.cotangent)), transpose(v)));
    const Tensor kept = p.key < 0 ? products : where(kept_, products * keep_, 0.0);
    const Tensor delta = unsqueeze(permute(input(p.delta), {0, 2, 1}), 3);
    return where(hidden_, 0.0, probabilities * (kept - delta));
  }

  AttentionProblem p;
  Tensor q, k, v;
  Tensor probabilities;  // (B, H, M, N)
  Tensor dropped;        // the same after dropout
  Tensor logarithms;     // (B, H, M)

 private:
  Shape matrix() const { return Shape{p.batch, p.heads, p.queries, p.keys}; }
  Tensor position(int axis, int64_t length, double start = 0) const {
    const Shape shape = Shape{1, 1, 1, 1}.with(axis, length);
    return Tensor(make_node_on(*node_.device, ops::iota_op, RangeAttrs(axis, start).packed(), shape, DType::i32));
  }

  void softmax() {
    Tensor scores = unstacked(matmul(stacked(q * p.scale), transpose(k)));
    if (p.bias >= 0) scores = scores + input(p.bias);
    const Tensor n = position(3, p.keys);
    hidden_ = full(Shape{1, 1, 1, 1}, 0, DType::boolean, node_.device);
    if (p.causal) hidden_ = hidden_ || n > position(2, p.queries, static_cast<double>(p.keys - p.queries));
    if (p.mask >= 0) hidden_ = hidden_ || !reshape(input(p.mask), Shape{p.batch, 1, 1, p.keys});
    if (p.lengths >= 0) hidden_ = hidden_ || n >= reshape(input(p.lengths), Shape{p.batch, 1, 1, 1});
    hidden_ = build::broadcast(hidden_, matrix());
    scores = where(hidden_, -infinity, scores);
    const Shape column = matrix().with(3, 1);
    const Tensor largest =
        p.keys == 0 ? full(column, -infinity, wide_, node_.device) : stop_gradient(max(scores, {3}, true));
    const Tensor shift = where(largest == -infinity, 0.0, largest);
    const Tensor terms = exp(scores - shift);
    const Tensor total = sum(terms, {3}, true);
    const Tensor none = total == 0;
    const Tensor safe = where(none, 1.0, total);
    probabilities = terms / safe;
    logarithms = reshape(where(none, infinity, shift + log(safe)), Shape{p.batch, p.heads, p.queries});
  }

  // Dropout draws for rows of a multiple of four keys, so that four neighbours share one call of Philox.
  void drop() {
    dropped = probabilities;
    if (p.key < 0) return;
    const NodePtr key = node_.inputs[static_cast<size_t>(p.key)];
    const Tensor draw(make_node(ops::random_uniform_op, {key}, {}, matrix().with(3, (p.keys + 3) / 4 * 4), DType::f32));
    kept_ = slice(draw, 3, {0, p.keys}) >= p.drop;
    keep_ = p.drop < 1 ? 1 / (1 - p.drop) : 0;
    dropped = where(kept_, probabilities * keep_, 0.0);
  }

  const Node& node_;
  DType wide_;
  Tensor hidden_, kept_;
  double keep_ = 1;
};

Tensor flat(const Tensor& x) { return reshape(x, Shape{x.numel()}); }

}  // namespace

Tensor decompose_attention(const Node& node) {
  const Unfused u(node);
  const DType t = node.dtype;
  const Tensor result = permute(u.unstacked(matmul(u.stacked(u.dropped), u.v)), {0, 2, 1, 3});
  std::vector<Tensor> parts{flat(cast(result, t))};
  if (u.p.parts == 1) {
    parts.push_back(flat(u.logarithms));
  } else {
    Tensor rest = u.logarithms * 0.015625;
    std::vector<Tensor> pieces;
    for (int i = 0; i < u.p.parts; ++i) {
      pieces.push_back(unsqueeze(cast(rest, t), 3));
      const Tensor stored = squeeze(cast(pieces.back(), DType::f32), 3);
      rest = where(isinf(stored), 0.0, rest - stored);
    }
    parts.push_back(flat(concat(pieces, 3)));
  }
  return concat(parts, 0);
}

Tensor decompose_attention_query_gradient(const Node& node) {
  const Unfused u(node);
  const Tensor gradient = u.unstacked(matmul(u.stacked(u.slopes()), u.k)) * u.p.scale;
  return cast(permute(gradient, {0, 2, 1, 3}), node.dtype);
}

Tensor decompose_attention_key_gradient(const Node& node) {
  const Unfused u(node);
  const Tensor keys = matmul(transpose(u.stacked(u.slopes())), u.stacked(u.q)) * u.p.scale;  // (B, J, N, D)
  const Tensor values = matmul(transpose(u.stacked(u.dropped)), u.stacked(u.input(u.p.cotangent)));
  const auto result = [&](const Tensor& x) { return flat(cast(permute(x, {0, 2, 1, 3}), node.dtype)); };
  return concat({result(keys), result(values)}, 0);
}

Tensor decompose_attention_bias_gradient(const Node& node) {
  const Unfused u(node);
  const Tensor slopes = u.slopes();
  std::vector<int> axes;
  for (int axis = 0; axis < 3; ++axis) {
    if (node.shape[axis] != slopes.dim(axis)) axes.push_back(axis);
  }
  return cast(axes.empty() ? slopes : sum(slopes, axes, true), node.dtype);
}

}  // namespace heddle
