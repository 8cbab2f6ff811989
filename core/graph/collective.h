// Nodes of collectives by bits of axes, as gradient rules record them. Internal to core, autograd and distributed; the
// public functions take names of axes (distributed/collectives.h).
//
// Purpose: values that all ranks along axes of a mesh make together (core/graph/mesh_scope.h). Formulas of gradients
// are transposes: psum and pvary of each other, all_gather and reduce_scatter likewise, all_to_all of itself, ppermute
// of the one that sends back. Invariants: operands become varying along the axes; results of psum, pmax and pmin are
// invariant along them. Errors: AxisError outside of a scope; DTypeError for a reduction of i8, u8 or bool; ShapeError
// where the first axis of reduce_scatter and all_to_all is not the group's size. Thread safety: recording is per
// thread.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "heddle/core/graph/mesh_scope.h"
#include "heddle/core/graph/tensor.h"

namespace heddle::collective {

// x.shape each.
Tensor psum(const Tensor& x, AxisMask axes);
Tensor pmax(const Tensor& x, AxisMask axes);
Tensor pmin(const Tensor& x, AxisMask axes);
// (n, x.shape) of a group of n.
Tensor all_gather(const Tensor& x, AxisMask axes);
// (n, C...) gives (C...).
Tensor reduce_scatter(const Tensor& x, AxisMask axes);
// (n, C...) gives (n, C...).
Tensor all_to_all(const Tensor& x, AxisMask axes);
// Each pair: the place that sends, the place that receives. A place receives from at most one, and sends to at most
// one: ValueError.
Tensor ppermute(const Tensor& x, AxisMask axes, const std::vector<std::pair<int64_t, int64_t>>& pairs);
// x itself where it varies along all of them.
Tensor pvary(const Tensor& x, AxisMask axes);

}  // namespace heddle::collective
