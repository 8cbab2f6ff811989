// shard_map: one function, run by every rank of a mesh on its part of the data.
//
//   const Mesh mesh = Mesh::parse("dp=2", 2);
//   const auto step = shard_map(
//       [](const std::vector<Tensor>& in) {                       // the rank's rows of x; all of w
//         const auto loss = [&](const Tensor& w) { return pmean(mean(square(matmul(in[0], w))), "dp"); };
//         return std::vector{loss(in[1]), grad(loss)(in[1])};     // the gradient is summed over dp by itself
//       },
//       mesh, {Spec{{"dp"}}, Spec{}}, {Spec{}, Spec{}});
//   const std::vector<Tensor> results = step({x, w});
//
// Purpose: the first form is a simulated world, a thread for each rank, over whole values: what tests compare with. The
// second runs in a real one, where each process has its shards. Inside, collectives (collectives.h) name axes of the
// mesh; gradients are taken inside, too. What f reads beside its arguments counts as equal on all ranks. Invariants: a
// result that varies along an axis has to name it in its Spec; results have no gradient history. Each rank makes every
// collective before its results are given. Errors: ValueError for another number of arguments or results than Specs,
// and for a real world inside of another program of ranks; AxisError for a result that varies along an axis that its
// Spec does not name; those of Sharding; what f throws, from the first rank that failed by itself, in a real world
// from each rank what happened to it: that world is broken then. Thread safety: f runs on several threads at once in a
// simulated world; random numbers come from keys, since its threads share the process's generator in any order.
#pragma once

#include <vector>

#include "heddle/core/base/callable.h"
#include "heddle/distributed/sharding.h"

namespace heddle::distributed {

class World;

using ShardFunction = Callable<std::vector<Tensor>(const std::vector<Tensor>&)>;

// A function of whole values that gives whole values, computed by mesh.ranks() threads of this process.
ShardFunction shard_map(ShardFunction f, const Mesh& mesh, std::vector<Spec> in, std::vector<Spec> out);

// A function of this rank's shards that gives its shards; every rank of `world`, which outlives it, calls it.
ShardFunction shard_map(ShardFunction f, World& world, const Mesh& mesh, std::vector<Spec> in, std::vector<Spec> out);

}  // namespace heddle::distributed
