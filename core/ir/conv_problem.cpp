#include "heddle/core/ir/conv_problem.h"

#include <algorithm>

#include "heddle/core/op/attrs.h"
#include "heddle/core/op/primitives.h"
#include "heddle/core/tiles/inexact.h"

namespace heddle {
namespace {

Extent3 in_three(const std::vector<int64_t>& list, int64_t fill) {
  Extent3 result{fill, fill, fill};
  for (size_t d = 0; d < list.size(); ++d) result[3 - list.size() + d] = list[d];
  return result;
}

// `rank` sizes from axis `first` on.
Extent3 space_of(const Shape& shape, int first, int rank) {
  std::vector<int64_t> sizes;
  for (int d = 0; d < rank; ++d) sizes.push_back(shape[first + d]);
  return in_three(sizes, 1);
}

}  // namespace

ConvProblem conv_problem(const Graph& graph, const IrNode& node) {
  using Kind = ConvProblem::Kind;
  const ConvAttrs attrs(node.attrs);
  const int rank = attrs.rank(), space = attrs.channels_last ? 1 : 2, channel = attrs.channels_last ? rank + 1 : 1;
  const Shape &a = graph.nodes[node.inputs[0]].shape, &b = graph.nodes[node.inputs[1]].shape;
  ConvProblem p;
  p.kind = node.op == &ops::conv_op              ? Kind::forward
           : node.op == &ops::conv_input_grad_op ? Kind::input_grad
                                                 : Kind::weight_grad;
  p.last = attrs.channels_last;
  p.G = attrs.groups;
  p.N = a[0];
  p.in = space_of(a, space, rank);
  p.CG = a[channel] / p.G;
  p.stride = in_three(attrs.stride, 1);
  p.dilation = in_three(attrs.dilation, 1);
  p.pad = in_three(attrs.padding, 0);
  p.parts = std::max<int64_t>(1, attrs.parts);
  if (p.kind == Kind::weight_grad) {
    p.OG = b[channel] / p.G;
    p.out = space_of(b, space, rank);
    p.kernel = space_of(node.shape, node.shape.rank() - rank, rank);
  } else {
    const int first = attrs.parts > 0 ? 1 : 0;  // the parts stand before the images
    p.OG = node.shape[first + channel] / p.G;
    p.out = space_of(node.shape, first + space, rank);
    p.kernel = space_of(b, 2, rank);
  }
  p.winograd = winograd_wanted();
  p.x = graph.nodes[node.inputs[0]].dtype;
  p.w = graph.nodes[node.inputs[1]].dtype;
  return p;
}

ConvImages conv_images(const View& view, bool last) {
  const int rank = view.shape.rank() - 2;
  ConvImages images;
  images.offset = view.offset;
  images.n = view.strides[0];
  images.c = view.strides[static_cast<size_t>(last ? rank + 1 : 1)];
  std::vector<int64_t> space;
  for (int d = 0; d < rank; ++d) space.push_back(view.strides[static_cast<size_t>(d + (last ? 1 : 2))]);
  images.space = in_three(space, 0);
  return images;
}

}  // namespace heddle
