// What a rank keeps of a parameter whose parts lie on the ranks along axes of a mesh. Internal to nn.
//
// Invariants: parts are of one size, in the order of places. Errors: AxisError outside of a program of ranks
// (distributed/shard_map.h) and for axes that are not there; ShapeError where the ranks do not divide the axis. Thread
// safety: none.
#pragma once

#include "heddle/core/graph/tensor.h"
#include "heddle/distributed/axis_names.h"

namespace heddle::nn {

// The rank's part along `axis`, as values of its own.
Tensor rank_part(const char* who, const Tensor& whole, int axis, const distributed::AxisNames& axes);

// The parameter, which varies along the axes from now on: whatever replaced its value since (load_state_dict, to) is a
// part as well.
const Tensor& typed_part(const Tensor& parameter, const distributed::AxisNames& axes);

}  // namespace heddle::nn
