// The weight gradient of a convolution sums over all pixels of all images: a long reduction with few results. It
// becomes partial sums and their sum.
#include "heddle/core/ir/conv_problem.h"
#include "heddle/core/ir/dynamic_sizes.h"
#include "heddle/core/op/attrs.h"
#include "heddle/core/op/primitives.h"
#include "heddle/core/specialise/rewrites.h"

namespace heddle {

int split_conv_weight_grad(Graph& out, const IrNode& node, const Caps& caps) {
  if (node.op != &ops::conv_weight_grad_op || ConvAttrs(node.attrs).parts > 0) return -1;
  ConvProblem p = conv_problem(out, node);
  if (dimension_varies(out.nodes[node.inputs[0]], 0)) p.N = nominal_batch;
  const int64_t parts = pick_conv_parts(caps, p);
  if (parts <= 1) return -1;
  // Partial sums of half precision are kept in f32.
  const DType t = arith(node.dtype);
  Shape shape{parts};
  for (int64_t d : node.shape) shape.push_back(d);
  IrNode partial = node;
  ConvAttrs attrs(node.attrs);
  attrs.parts = parts;
  partial.attrs = attrs.packed();
  partial.shape = shape;
  partial.varies = varies::unknown;
  partial.dtype = t;
  const int total = out.add({&ops::sum_op, axis_attrs(0), {out.add(std::move(partial))}, node.shape, t});
  return t == node.dtype ? total : out.add({&ops::cast_op, {}, {total}, node.shape, node.dtype});
}

}  // namespace heddle
