// auto_shard: a function of whole tensors, computed in parts by the ranks of a mesh.
//
//   const auto step = auto_shard(
//       [](const std::vector<Tensor>& in) {                    // shapes are those of the whole
//         const auto loss = [&](const Tensor& w) { return mean(square(matmul(gelu(matmul(in[0], in[1])), w))); };
//         return std::vector{loss(in[2]), grad(loss)(in[2])};
//       },
//       mesh, {Spec{{"dp"}}, Spec{{{}, "tp"}}, Spec{{"tp"}}}, {Spec{}, Spec{{"tp"}}});
//
// Purpose: f names no rank and no axis; where its arguments lie says what each rank computes and what is sent. f is
// recorded over the shapes of the whole and replayed over parts, operation by operation, by the factors of each
// (op_factors.h): an axis that cuts an input cuts the factor, a summed factor leaves partial sums, which are added when
// they are first read. Where an axis would cut two factors of an operation the one is taken for which a rank sends
// fewer bytes (layout.h); kinds without a rule compute the whole on every rank. Parameters that f closes over are whole
// on all ranks. Gradients are taken inside of f. Invariants: results are those of f, but for the order of sums. Errors:
// those of shard_map.h, besides ValueError for loops, assignments and collectives in f, for a value that is looked at,
// and for a Spec with partial sums or axes of a dimension in another order than the mesh's; AxisError. Thread safety:
// as shard_map.
#pragma once

#include <vector>

#include "heddle/distributed/shard_map.h"

namespace heddle::distributed {

// A simulated world over whole values, and a real one over this rank's shards.
ShardFunction auto_shard(ShardFunction f, const Mesh& mesh, std::vector<Spec> in, std::vector<Spec> out);
ShardFunction auto_shard(ShardFunction f, World& world, const Mesh& mesh, std::vector<Spec> in, std::vector<Spec> out);

// x, which lies so from here on, inside of auto_shard; outside of it x. Gradients lie as they come.
Tensor constrain(const Tensor& x, const Spec& spec, Caller caller = Caller::current());

}  // namespace heddle::distributed
