// Batching rules of matrix products, convolutions and attention: the mapped axis becomes a part of an axis that the
// kernels have.
#include "heddle/autograd/batching.h"
#include "heddle/core/functions/functions.h"
#include "heddle/core/functions/nn/attention_problem.h"
#include "heddle/core/op/attrs.h"
#include "heddle/core/op/primitives.h"

namespace heddle::autograd {
namespace {

// ---- matrix products

Tensor product(const BatchCall& call) {
  const Tensor &a = call.in[0], &b = call.in[1];
  const int rank = call.node.shape.rank();
  const int64_t m = call.node.shape[rank - 2], n = call.node.shape[rank - 1], k = call.example(0)[rank - 1];
  if (k == 1)
    return expand(call.lifted(0), call.shape()) * expand(call.lifted(1), call.shape());  // outer products, which fuse
  const bool plain = rank == 2;
  if (plain && !call.mapped[1]) return reshape(matmul(reshape(a, Shape{call.size * m, k}), b), call.shape());
  if (plain && !call.mapped[0] && n == 1)
    return reshape(matmul(reshape(b, Shape{call.size, k}), transpose(a)), call.shape());
  return call.record({call.lifted(0), call.lifted(1)}, {}, call.shape());
}

// ---- convolutions

// Axis 0 becomes the outer part of axis `axis` (counted without it), or, with groups, stands between the groups and
// what is in them.
Tensor into_axis(const Tensor& x, int axis, int64_t groups) {
  const Shape one = x.shape().without(0);
  Shape split = x.shape();  // (B, ..., groups, c / groups, ...)
  split = split.with(axis + 1, groups).inserted(axis + 2, one[axis] / groups);
  std::vector<int> order;
  for (int i = 1; i < split.rank(); ++i) {
    order.push_back(i);
    if (i == axis + 1) order.push_back(0);
  }
  return reshape(permute(reshape(x, split), order), one.with(axis, one[axis] * x.dim(0)));
}

// Back: `size` examples out of an axis that into_axis() made.
Tensor out_of_axis(const Tensor& x, int axis, int64_t groups, int64_t size) {
  const int64_t part = x.dim(axis) / groups / size;
  const Shape split = x.shape().with(axis, groups).inserted(axis + 1, size).inserted(axis + 2, part);
  std::vector<int> order{axis + 1};
  for (int i = 0; i < split.rank(); ++i) {
    if (i != axis + 1) order.push_back(i);
  }
  return reshape(permute(reshape(x, split), order), x.shape().with(axis, groups * part).inserted(0, size));
}

Tensor fold_images(const Tensor& x) {
  const Shape one = x.shape().without(0);
  return reshape(x, one.with(0, one[0] * x.dim(0)));
}

struct Layout {
  explicit Layout(const BatchCall& call)
      : groups(ConvAttrs(call.attrs()).groups),
        channels(ConvAttrs(call.attrs()).channels_last ? call.node.shape.rank() - 1 : 1) {}
  int64_t groups;
  int channels;  // axis of images
};

// As many groups as examples times what there are.
Attrs by_example(const BatchCall& call) {
  ConvAttrs attrs(call.attrs());
  attrs.groups *= call.size;
  return attrs.packed();
}

Shape scaled(const Shape& shape, int axis, int64_t by) { return shape.with(axis, shape[axis] * by); }

// The first input images, the second weights, the result images.
Tensor images_by_weights(const BatchCall& call) {
  const Layout l(call);
  const Shape& shape = call.node.shape;
  if (!call.mapped[1])
    return reshape(call.record({fold_images(call.in[0]), call.in[1]}, call.attrs(), scaled(shape, 0, call.size)),
                   call.shape());
  if (!call.mapped[0] && call.node.op == &ops::conv_op) {  // more output channels in each group
    const Tensor all = call.record({call.in[0], into_axis(call.in[1], 0, l.groups)}, call.attrs(),
                                   scaled(shape, l.channels, call.size));
    return out_of_axis(all, l.channels, l.groups, call.size);
  }
  const Tensor all = call.record({into_axis(call.lifted(0), l.channels, 1), fold_images(call.in[1])}, by_example(call),
                                 scaled(shape, l.channels, call.size));
  return out_of_axis(all, l.channels, 1, call.size);
}

// Both inputs images, the result weights.
Tensor images_by_images(const BatchCall& call) {
  const Layout l(call);
  const Shape shape = scaled(call.node.shape, 0, call.size);
  if (!call.mapped[0])
    return out_of_axis(call.record({call.in[0], into_axis(call.in[1], l.channels, l.groups)}, call.attrs(), shape), 0,
                       l.groups, call.size);
  const Tensor all = call.record({into_axis(call.in[0], l.channels, 1), into_axis(call.lifted(1), l.channels, 1)},
                                 by_example(call), shape);
  return reshape(all, call.shape());
}

// ---- attention

// (V, B, ...) -> (V B, ...); a bias of one batch serves all, unless it has one for each example or its gradient is
// asked for.
std::vector<Tensor> fold_attention(const BatchCall& call, const AttentionProblem& p) {
  std::vector<Tensor> inputs;
  for (size_t i = 0; i < call.in.size(); ++i) {
    const int at = static_cast<int>(i);
    Tensor x = at == p.key ? call.in[i] : call.lifted(i);
    if (at == p.bias) {
      if (!call.mapped[i] && call.example(i)[0] == 1 && call.node.op != &ops::attention_bias_gradient_op)
        x = call.in[i];
      else
        x = fold_images(expand(x, x.shape().with(1, p.batch)));
    } else if (at != p.key) {
      x = fold_images(x);
    }
    inputs.push_back(x);
  }
  return inputs;
}

// A flat result of two parts for all examples, as one of two parts for each.
Tensor by_example(const Tensor& flat, int64_t first, int64_t second, int64_t size) {
  const Tensor front = reshape(slice(flat, 0, {0, size * first}), Shape{size, first});
  const Tensor back = reshape(slice(flat, 0, {size * first, size * (first + second)}), Shape{size, second});
  return concat({front, back}, 1);
}

// Under Randomness::same the kernel's draws, which count batches, would differ: the decomposition draws once for all.
bool draws_once(const BatchCall& call, const AttentionProblem& p) {
  return p.key >= 0 && call.randomness == Randomness::same;
}

Tensor attended(const BatchCall& call) {
  const AttentionProblem p = attention_problem(call.node);
  if (draws_once(call, p)) return {};
  const Tensor all = call.record(fold_attention(call, p), call.attrs(), scaled(call.node.shape, 0, call.size));
  return by_example(all, p.results(), p.logarithms(), call.size);
}

Tensor query_gradient(const BatchCall& call) {
  const AttentionProblem p = attention_problem(call.node);
  if (draws_once(call, p)) return {};
  return reshape(call.record(fold_attention(call, p), call.attrs(), scaled(call.node.shape, 0, call.size)),
                 call.shape());
}

Tensor key_gradient(const BatchCall& call) {
  const AttentionProblem p = attention_problem(call.node);
  if (draws_once(call, p)) return {};
  const int64_t rows = p.batch * p.keys * p.key_heads;
  const Tensor all = call.record(fold_attention(call, p), call.attrs(), scaled(call.node.shape, 0, call.size));
  return by_example(all, rows * p.size, rows * p.value_size, call.size);
}

Tensor bias_gradient(const BatchCall& call) {
  const AttentionProblem p = attention_problem(call.node);
  if (draws_once(call, p)) return {};
  const Shape one = call.node.shape.with(0, p.batch);
  const Tensor all =
      reshape(call.record(fold_attention(call, p), call.attrs(), scaled(one, 0, call.size)), call.with_axis(one));
  return call.node.shape[0] == p.batch ? all : sum(all, {1}, true);
}

}  // namespace

void add_contraction_batching(BatchTable& table) {
  table[&ops::matmul_op].rule = product;
  table[&ops::conv_op].rule = images_by_weights;
  table[&ops::conv_input_grad_op].rule = images_by_weights;
  table[&ops::conv_weight_grad_op].rule = images_by_images;
}

void add_attention_batching(BatchTable& table) {
  table[&ops::attention_op].rule = attended;
  table[&ops::attention_query_gradient_op].rule = query_gradient;
  table[&ops::attention_key_gradient_op].rule = key_gradient;
  table[&ops::attention_bias_gradient_op].rule = bias_gradient;
}

}  // namespace heddle::autograd
