// The problem of a convolution's vertex, for lowering and for rewrites.
// Thread safety: pure functions.
#pragma once

#include "heddle/core/ir/ir.h"
#include "heddle/core/tiles/conv_tiles.h"

namespace heddle {

// Sizes, kind and layout; what depends on how operands lie in memory keeps its default.
ConvProblem conv_problem(const Graph& graph, const IrNode& node);
// The strides of a view of images (N, C, sizes...) or (N, sizes..., C).
ConvImages conv_images(const View& view, bool channels_last);

}  // namespace heddle
