// Attention.
#include "heddle/core/functions/nn/attention.h"

#include <fmt/format.h>

#include <cmath>

#include "heddle/core/functions/build.h"
#include "heddle/core/functions/math/cast.h"
#include "heddle/core/functions/nn/attention_problem.h"
#include "heddle/core/functions/nn/attention_rows.h"
#include "heddle/core/functions/random/key.h"
#include "heddle/core/functions/shape/movement.h"
#include "heddle/core/functions/shape/pick.h"
#include "heddle/core/graph/autocast.h"
#include "heddle/core/graph/composite.h"
#include "heddle/core/op/attrs.h"
#include "heddle/core/op/primitives.h"

namespace heddle {
namespace {

constexpr const char* name = "scaled_dot_product_attention";

void check_shapes(const Tensor& q, const Tensor& k, const Tensor& v) {
  const auto all = [&] {
    return fmt::format("q is {}, k is {}, v is {}", q.shape().str(), k.shape().str(), v.shape().str());
  };
  if (q.rank() != 4 || k.rank() != 4 || v.rank() != 4) {
    throw ShapeError(fmt::format("[{}] needs q (B, H, T, D), k (B, J, S, D) and v (B, J, S, E): {}", name, all()));
  }
  if (q.dim(0) != k.dim(0) || q.dim(0) != v.dim(0))
    throw ShapeError(fmt::format("[{}] batch sizes differ: {}", name, all()));
  if (k.dim(1) != v.dim(1) || k.dim(2) != v.dim(2))
    throw ShapeError(fmt::format("[{}] k and v differ in heads or length: {}", name, all()));
  if (q.dim(3) != k.dim(3)) throw ShapeError(fmt::format("[{}] head sizes of q and k differ: {}", name, all()));
  if (k.dim(1) == 0 ? q.dim(1) != 0 : q.dim(1) % k.dim(1) != 0) {
    throw ShapeError(
        fmt::format("[{}] {} query heads are no multiple of {} key heads: {}", name, q.dim(1), k.dim(1), all()));
  }
}

// The bias with four dimensions, each of size 1 or that of the scores.
Tensor checked_bias(const Tensor& bias, const Tensor& q, const Tensor& k, DType t) {
  build::check_device(q, bias, name);
  const Shape scores{q.dim(0), q.dim(1), q.dim(2), k.dim(2)};
  Shape shape{1, 1, 1, 1};
  bool fits = bias.rank() <= 4;
  for (int axis = 0; fits && axis < bias.rank(); ++axis) {
    const int to = 4 - bias.rank() + axis;
    shape = shape.with(to, bias.dim(axis));
    fits = bias.dim(axis) == 1 || bias.dim(axis) == scores[to];
  }
  if (!fits) {
    throw ShapeError(
        fmt::format("[{}] bias {} does not broadcast to the scores' {}", name, bias.shape().str(), scores.str()));
  }
  if (!is_float(bias.dtype())) {
    const char* hint = bias.dtype() == DType::boolean
                           ? "; did you mean where(mask, zeros_like(...), -INFINITY), or key_mask?"
                           : "; cast it first";
    throw DTypeError(fmt::format("[{}] bias is {}, expected a floating dtype{}", name, name_of(bias.dtype()), hint));
  }
  const Tensor x = reshape(bias, shape);
  if (t == DType::f64) return cast(x, t);
  return bias.dtype() == DType::f64 ? cast(x, DType::f32) : x;
}

Tensor checked_mask(const Tensor& mask, const Tensor& q, const Tensor& k) {
  build::check_device(q, mask, name);
  if (mask.dtype() != DType::boolean)
    throw DTypeError(fmt::format("[{}] key_mask is {}, expected bool (true: attend)", name, name_of(mask.dtype())));
  const Shape expected{q.dim(0), k.dim(2)};
  if (mask.shape() != expected)
    throw ShapeError(
        fmt::format("[{}] key_mask is {}, expected (B, S) = {}", name, mask.shape().str(), expected.str()));
  return mask;
}

Tensor checked_lengths(const Tensor& lengths, const Tensor& q, const Tensor& k) {
  build::check_device(q, lengths, name);
  build::check_index_dtype(lengths, name);
  const Shape expected{q.dim(0)};
  if (lengths.shape() != expected)
    throw ShapeError(
        fmt::format("[{}] key_lengths is {}, expected (B) = {}", name, lengths.shape().str(), expected.str()));
  return build::bounded(lengths, k.dim(2));
}

void check_numbers(const AttentionOptions& o, const Tensor& q, const Tensor& k) {
  if (!(o.dropout >= 0 && o.dropout <= 1))
    throw ValueError(fmt::format("[{}] the probability of dropout is {}; it must be between 0 and 1", name, o.dropout));
  if (o.scale && !std::isfinite(*o.scale))
    throw ValueError(fmt::format("[{}] scale is {}; it must be finite", name, *o.scale));
  // Philox's counter is the number of four keys, in 32 bits.
  const double calls = static_cast<double>(q.dim(0)) * static_cast<double>(q.dim(1)) * static_cast<double>(q.dim(2)) *
                       static_cast<double>((k.dim(2) + 3) / 4);
  if (o.dropout > 0 && calls >= 4294967296.0) {
    throw ValueError(fmt::format("[{}] dropout over {} x {} x {} x {} scores needs more than 2^32 random blocks", name,
                                 q.dim(0), q.dim(1), q.dim(2), k.dim(2)));
  }
}

DType common_dtype(const Tensor& q, const Tensor& k, const Tensor& v) {
  for (const Tensor* x : {&q, &k, &v}) {
    if (!is_float(x->dtype()))
      throw DTypeError(fmt::format("[{}] needs floating tensors, not {}; cast it first", name, name_of(x->dtype())));
  }
  return autocast_dtype(ops::attention_op, promote(promote(q.dtype(), k.dtype()), v.dtype()));
}

}  // namespace

Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options,
                                    Caller caller) {
  const CallerScope scope(caller);
  build::check_device(q, k, name);
  build::check_device(q, v, name);
  check_shapes(q, k, v);
  check_numbers(options, q, k);
  const DType t = common_dtype(q, k, v);
  std::vector<NodePtr> inputs;
  const auto add = [&](const Tensor& x) { inputs.push_back(x.node()); };
  for (const Tensor* x : {&q, &k, &v}) add(cast(*x, t));
  if (options.bias.defined()) add(checked_bias(options.bias, q, k, t));
  if (options.key_mask.defined()) add(checked_mask(options.key_mask, q, k));
  if (options.key_lengths.defined()) add(checked_lengths(options.key_lengths, q, k));
  if (options.dropout > 0) inputs.push_back(build::next_key(q.device(), options.generator));

  AttentionAttrs named;
  named.causal = options.causal;
  named.bias = options.bias.defined();
  named.mask = options.key_mask.defined();
  named.lengths = options.key_lengths.defined();
  named.key = options.dropout > 0;
  named.scale = attention_scale(options.scale, q);
  named.drop = options.dropout;
  const Attrs attrs = named.packed();
  std::vector<Shape> shapes;
  for (const NodePtr& input : inputs) shapes.push_back(input->shape);
  const AttentionProblem p = attention_problem(attrs, shapes, t);
  const Tensor packed(make_node(ops::attention_op, std::move(inputs), attrs, Shape{p.results() + p.logarithms()}, t));
  // In memory the result is (B, T, H, E), so that joining the heads again is a view.
  const Tensor result = permute(attention_result(packed, p), {0, 2, 1, 3});
  if (!options.key_lengths.defined() && options.dropout == 0) {
    // Without a number of its own the scale follows from q.
    note_composite("attention", result, {&q, &k, &v, &options.bias, &options.key_mask},
                   {options.causal, options.scale.has_value()}, named.scale);
  }
  return result;
}

}  // namespace heddle
