// pmap: one function, run on every slice of its arguments at once, a rank for each: a shard_map of one axis.
//
//   const auto normalised = pmap([](const std::vector<Tensor>& in) { return std::vector{in[0] / psum(sum(in[0]), "i")};
//   },
//                                "i");
//   const std::vector<Tensor> y = normalised({x});            // x (ranks, ...): f sees a slice, results are stacked
//   pmap(f, "i", {0, std::nullopt}, {0, std::nullopt});       // the second argument and result are the same on all
//
// Purpose: as JAX's. in_axes: one entry for each argument, or one for all; std::nullopt leaves an argument whole, which
// all ranks have then; negative ones count from the end. There are as many ranks as slices. out_axes: one entry for
// each result of f, 0 or above, the axis of all that its slices are stacked along; std::nullopt: the result does not
// vary along the axis. The first form is a simulated world of threads over whole values; in a real one each process
// brings its slices, with the mapped axis as an axis of size 1, and gets such. Invariants and thread safety: those of
// shard_map.h. Errors: besides those, ShapeError for an axis that is not there and for sizes that differ, ValueError
// for another number of axes, where nothing is mapped, and for a negative axis of a result.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "heddle/distributed/shard_map.h"

namespace heddle::distributed {

using MappedAxes = std::vector<std::optional<int>>;

ShardFunction pmap(ShardFunction f, std::string axis, MappedAxes in_axes = {0}, MappedAxes out_axes = {0});
ShardFunction pmap(ShardFunction f, World& world, std::string axis, MappedAxes in_axes = {0},
                   MappedAxes out_axes = {0});

}  // namespace heddle::distributed
