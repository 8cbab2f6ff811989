#include "heddle/nn/context_parallel.h"

#include <fmt/format.h>

#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "heddle/autograd/custom.h"
#include "heddle/core/base/error.h"
#include "heddle/core/functions/functions.h"
#include "heddle/core/functions/nn/attention_problem.h"
#include "heddle/core/functions/nn/attention_rows.h"
#include "heddle/core/graph/mesh_scope.h"
#include "heddle/core/op/attrs.h"
#include "heddle/core/op/primitives.h"
#include "heddle/distributed/collectives.h"

namespace heddle::nn {
namespace {

using distributed::AxisNames;

void check(const char* who, const Tensor& q, const Tensor& k, const Tensor& v) {
  const auto all = [&] {
    return fmt::format("q is {}, k is {}, v is {}", q.shape().str(), k.shape().str(), v.shape().str());
  };
  if (q.rank() != 4 || k.rank() != 4 || v.rank() != 4)
    throw ShapeError(fmt::format("[{}] needs q (B, H, T, D), k (B, J, T, D) and v (B, J, T, E): {}", who, all()));
  if (q.dim(2) != k.dim(2) || k.dim(2) != v.dim(2))
    throw ShapeError(fmt::format("[{}] each rank has as many queries as keys and values: {}", who, all()));
  if (q.dim(0) != k.dim(0) || q.dim(0) != v.dim(0) || k.dim(1) != v.dim(1) || q.dim(3) != k.dim(3))
    throw ShapeError(fmt::format("[{}] batch, key heads or head sizes differ: {}", who, all()));
  if (k.dim(1) == 0 || q.dim(1) % k.dim(1) != 0)
    throw ShapeError(fmt::format("[{}] {} query heads are no multiple of {} key heads", who, q.dim(1), k.dim(1)));
  if (!is_float(q.dtype()) || !is_float(k.dtype()) || !is_float(v.dtype()))
    throw DTypeError(fmt::format("[{}] needs floating tensors; cast them first", who));
}

// The ranks along the axes, one behind the other in a circle.
class Ring {
 public:
  Ring(const char* who, const AxisNames& axes) : axes_(axes) {
    const MeshScope& scope = MeshScope::required(who);
    const AxisMask along = scope.mask(axes.list(), who);
    count_ = scope.size(along);
    place_ = scope.place(along);
    for (int64_t i = 0; i < count_; ++i) next_.emplace_back(i, (i + 1) % count_);
  }
  int64_t count() const { return count_; }
  int64_t place() const { return place_; }
  // Whose values are here after so many steps.
  int64_t owner(int64_t steps) const { return (place_ - steps + count_) % count_; }
  Tensor passed_on(const Tensor& x) const { return count_ == 1 ? x : distributed::ppermute(x, axes_, next_); }

 private:
  AxisNames axes_;
  int64_t count_ = 1, place_ = 0;
  std::vector<std::pair<int64_t, int64_t>> next_;
};

// Attention's rows (attention_problem.h) of the queries here and keys of one rank.
class Block {
 public:
  Block(const Tensor& q, const Tensor& k, const Tensor& v, double scale, bool causal)
      : inputs_{q.node(), k.node(), v.node()}, dtype_(q.dtype()) {
    AttentionAttrs named;
    named.causal = causal;
    named.scale = scale;
    attrs_ = named.packed();
    const std::vector<Shape> shapes{q.shape(), k.shape(), v.shape()};
    p_ = attention_problem(attrs_, shapes, dtype_);
  }

  // (B, T, H, E), and the logarithms of the rows' sums (B, H, T).
  std::pair<Tensor, Tensor> results() const {
    const Tensor packed(make_node(ops::attention_op, inputs_, attrs_, Shape{p_.results() + p_.logarithms()}, dtype_));
    return {attention_result(packed, p_),
            reshape(attention_logarithms(packed, p_), Shape{p_.batch, p_.heads, p_.queries})};
  }

  // Of q (B, H, T, D), k and v, whose part in the whole softmax the whole rows' logarithms say.
  std::tuple<Tensor, Tensor, Tensor> gradients(const Tensor& g, const Tensor& logarithms, const Tensor& delta) const {
    std::vector<NodePtr> inputs = inputs_;
    for (const Tensor& x : {g, reshape(logarithms, Shape{p_.logarithms()}), delta}) inputs.push_back(x.node());
    const Tensor queries(make_node(ops::attention_query_gradient_op, inputs, attrs_,
                                   Shape{p_.batch, p_.queries, p_.heads, p_.size}, dtype_));
    const Tensor both(
        make_node(ops::attention_key_gradient_op, inputs, attrs_, attention_key_gradient_shape(p_), dtype_));
    return {permute(queries, {0, 2, 1, 3}), attention_gradient_of_keys(both, p_),
            attention_gradient_of_values(both, p_)};
  }

 private:
  std::vector<NodePtr> inputs_;
  Attrs attrs_;
  DType dtype_;
  AttentionProblem p_;
};

// (B, H, T) as factors of (B, T, H, E).
Tensor by_row(const Tensor& x) { return unsqueeze(permute(x, {0, 2, 1}), 3); }

// One pass around the ring each.
struct RingAttention {
  Ring ring;
  double scale;
  bool causal;

  // Whether the queries here see keys of that place at all, and all of them.
  bool sees(int64_t owner) const { return !causal || owner <= ring.place(); }
  Block block(const Tensor& q, const Tensor& k, const Tensor& v, int64_t owner) const {
    return {q, k, v, scale, causal && owner == ring.place()};
  }

  // (B, H, T, E), and the logarithms of the whole rows' sums (B, H, T).
  std::pair<Tensor, Tensor> forward(const Tensor& q, Tensor k, Tensor v) const {
    Tensor result, logarithms;
    for (int64_t step = 0; step < ring.count(); ++step) {
      if (step > 0) {
        k = ring.passed_on(k);
        v = ring.passed_on(v);
      }
      if (!sees(ring.owner(step))) continue;
      const auto [part, sums] = block(q, k, v, ring.owner(step)).results();
      if (!result.defined()) {
        result = part;
        logarithms = sums;
        continue;
      }
      const Tensor all = logaddexp(logarithms, sums);
      result = result * by_row(exp(logarithms - all)) + part * by_row(exp(sums - all));
      logarithms = all;
    }
    return {permute(result, {0, 2, 1, 3}), logarithms};
  }

  // Gradients of keys and values go along with these, and come home with the last step.
  std::tuple<Tensor, Tensor, Tensor> backward(const Tensor& q, Tensor k, Tensor v, const Tensor& result,
                                              const Tensor& logarithms, const Tensor& g) const {
    const Tensor delta = permute(sum(g * result, {3}), {0, 2, 1});
    Tensor of_q = zeros_like(q), of_k = zeros_like(k), of_v = zeros_like(v);
    for (int64_t step = 0; step < ring.count(); ++step) {
      if (step > 0) {
        k = ring.passed_on(k);
        v = ring.passed_on(v);
        of_k = ring.passed_on(of_k);
        of_v = ring.passed_on(of_v);
      }
      if (!sees(ring.owner(step))) continue;
      const auto [more_q, more_k, more_v] = block(q, k, v, ring.owner(step)).gradients(g, logarithms, delta);
      of_q = of_q + more_q;
      of_k = of_k + more_k;
      of_v = of_v + more_v;
    }
    return {of_q, ring.passed_on(of_k), ring.passed_on(of_v)};
  }
};

}  // namespace

Tensor ring_attention(const Tensor& q, const Tensor& k, const Tensor& v, const AxisNames& axes,
                      const ContextAttentionOptions& options, Caller caller) {
  const CallerScope scope(caller);
  check("ring_attention", q, k, v);
  const DType given = promote(promote(q.dtype(), k.dtype()), v.dtype());
  const DType wide = given == DType::f64 ? DType::f64 : DType::f32;
  const RingAttention around{Ring("ring_attention", axes), attention_scale(options.scale, q), options.causal};
  // The values that the gradient reads are held, and so computed with the result: of a history alone they would be
  // computed later, from the parts of all steps, which would stay until then.
  const auto held = std::make_shared<std::vector<Tensor>>();
  const auto attend =
      custom_vjp([around](const Tensor& a, const Tensor& b, const Tensor& c) { return around.forward(a, b, c).first; },
                 [around, held](const Tensor& a, const Tensor& b, const Tensor& c) {
                   const NoGradScope no_grad;  // keys and values of the others would stay for the second order
                   const auto [result, logarithms] = around.forward(a, b, c);
                   *held = {result, logarithms};
                   return std::pair(result, std::tuple(a, b, c, result, logarithms));
                 },
                 [around](const std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor>& seen, const Tensor& g) {
                   const auto& [a, b, c, result, logarithms] = seen;
                   return around.backward(a, b, c, result, logarithms, g);
                 });
  const auto own = [&](const Tensor& x) { return distributed::pvary(cast(x, wide), axes); };
  return cast(attend(own(q), own(k), own(v)), given);
}

Tensor all_to_all_attention(const Tensor& q, const Tensor& k, const Tensor& v, const AxisNames& axes,
                            const ContextAttentionOptions& options, Caller caller) {
  const CallerScope scope(caller);
  check("all_to_all_attention", q, k, v);
  const int64_t ranks = distributed::axis_size(axes);
  if (q.dim(1) % ranks != 0 || k.dim(1) % ranks != 0)
    throw ShapeError(fmt::format("[all_to_all_attention] {} ranks do not divide {} query heads and {} key heads", ranks,
                                 q.dim(1), k.dim(1)));
  const auto of_heads = [&](const Tensor& x) { return distributed::all_to_all(x, axes, 1, 2); };
  const Tensor result = scaled_dot_product_attention(
      of_heads(q), of_heads(k), of_heads(v), {.causal = options.causal, .scale = attention_scale(options.scale, q)});
  return distributed::all_to_all(result, axes, 2, 1);
}

}  // namespace heddle::nn
