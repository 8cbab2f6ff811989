// Sharding: how a value lies over the ranks of a mesh.
//
// Purpose: says which part of a value a rank has, and how parts are the whole again. Invariants: along a dimension with
// several axes the first named is the outermost; axes that are not named have copies. Errors: ValueError for an axis
// that the mesh does not have, or that is named twice; ShapeError for a value with fewer dimensions, or sizes that the
// ranks do not divide. Thread safety: plain value; recording is per thread.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "heddle/core/base/shape.h"
#include "heddle/core/graph/tensor.h"
#include "heddle/distributed/axis_names.h"
#include "heddle/distributed/mesh.h"

namespace heddle::distributed {

// Spec{}: copies on all ranks. Spec{{"dp"}}: the first dimension is cut along dp. Spec{{{}, {"dp", "tp"}}}: the second,
// along both. Dimensions behind the last one named are whole.
struct Spec {
  std::vector<AxisNames> dims;
  std::vector<std::string> partial = {};  // axes along which the ranks' values are still to be added
};

class Sharding {
 public:
  Sharding(Mesh mesh, Spec spec);

  const Mesh& mesh() const { return mesh_; }
  const Spec& spec() const { return spec_; }
  // All axes that are named: along these ranks may have different values.
  std::vector<std::string> axes() const;

  // Of one rank.
  Shape shard_shape(const Shape& whole) const;
  // The rank's part of a whole value. ValueError for a partial sharding: which part would be whose?
  Tensor shard(const Tensor& whole, int rank, Caller caller = Caller::current()) const;
  // The whole of the parts of all ranks, in their order. Of copies, that of the first rank. ValueError for another
  // number of parts.
  Tensor join(std::span<const Tensor> shards, Caller caller = Caller::current()) const;

  // "(dp, -, dp+tp)", "(-) partial tp".
  std::string str() const;

 private:
  int64_t cuts(size_t dim) const;

  Mesh mesh_;
  Spec spec_;
};

}  // namespace heddle::distributed
