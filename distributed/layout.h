// Layout: how a value of a program of ranks lies over them, by bits of axes, and what is sent to change it. Internal to
// distributed (auto_shard.h).
//
// Invariants: along a dimension with several axes the mesh's first one is the outermost. Errors: those of
// collectives.h. Thread safety: plain values; moving is recording, and per thread.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "heddle/core/graph/mesh_scope.h"
#include "heddle/core/graph/tensor.h"
#include "heddle/distributed/sharding.h"

namespace heddle::distributed {

struct Layout {
  std::vector<AxisMask> dims;  // axes that cut each dimension
  AxisMask partial = 0;        // axes along which the ranks' values are still to be added

  AxisMask axes() const;  // that cut a dimension
  bool operator==(const Layout&) const = default;
};

Layout whole_layout(int rank);
// ValueError in the name of `who` for a Spec with more dimensions than `rank`, with partial sums, or with several axes
// along a dimension in another order than the mesh's; AxisError for an axis that is not there.
Layout layout_of(const Spec& spec, int rank, const MeshScope& scope, std::string_view who);
// The shape of a rank's part. ShapeError where the axes do not divide their dimensions.
Shape part_shape(const Shape& whole, const Layout& layout, const MeshScope& scope);

// A rank's value, moved to another layout without partial sums: sums by psum, or reduce_scatter where the axis cuts the
// result; an axis that changes its dimension by all_to_all; other cuts are gathered, and new ones made, from the
// innermost one on.
Tensor moved(const Tensor& part, const Layout& from, const Layout& to);
// Bytes that a rank sends for it, of a whole value of that shape and size of an element, headers left out.
double bytes_of_move(const Shape& whole, size_t element_bytes, const Layout& from, const Layout& to,
                     const MeshScope& scope);

}  // namespace heddle::distributed
