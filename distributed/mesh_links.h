// MeshLinks: collectives of a recorded program, carried by the groups of a world.
//
// Purpose: what core asks for by axes (core/graph/mesh_scope.h) are calls of groups (group.h) on the host's memory.
// Invariants: a rank's calls wait for each other; groups are made at their first use, which all ranks have in the same
// order. Errors: ValueError for a mesh of another size than the world; those of errors.h, from call(). Thread safety:
// one thread at a time.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "heddle/core/graph/mesh_scope.h"
#include "heddle/distributed/mesh.h"
#include "heddle/distributed/world.h"

namespace heddle::distributed {

class MeshLinks final : public AxisLinks {
 public:
  // `world` and `mesh` outlive it.
  MeshLinks(World& world, const Mesh& mesh);
  const std::vector<ScopeAxis>& axes() const override { return axes_; }
  void call(const Node& collective, std::span<const uint8_t> operand, std::span<uint8_t> result) override;

 private:
  Group group(AxisMask axes) const;

  World& world_;
  const Mesh& mesh_;
  std::vector<ScopeAxis> axes_;
};

}  // namespace heddle::distributed
