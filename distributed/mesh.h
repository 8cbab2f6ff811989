// Mesh: ranks of a world as a grid with named axes.
//
// Purpose: "the ranks that hold the same layer" or "those that see other data" are lines of the grid. Invariants: axes
// are in row-major order, the last one has neighbouring ranks: of dp=2,tp=2 rank 1 is at dp=0, tp=1. Thread safety:
// plain value.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace heddle::distributed {

struct MeshAxis {
  std::string name;
  int64_t size = 1;
};

// Ranks in groups: every rank of a world stands in exactly one.
using Partition = std::vector<std::vector<int>>;

class Mesh {
 public:
  // `ranks` is the size of the world. Errors: ValueError where sizes do not make up the world, an axis has no name or
  // that of another, or a size below 1.
  Mesh(std::vector<MeshAxis> axes, int ranks);
  // "dp=2,tp=2". Errors: besides, ValueError for a text of another form.
  static Mesh parse(std::string_view text, int ranks);

  const std::vector<MeshAxis>& axes() const { return axes_; }
  int ranks() const { return ranks_; }
  // ValueError that lists the axes where it has none of that name; so below.
  int64_t size(std::string_view axis) const;

  // One place an axis, in their order. ValueError where the rank is none.
  std::vector<int64_t> coordinates(int rank) const;
  // ValueError where a place is not on its axis.
  int rank_at(const std::vector<int64_t>& coordinates) const;

  // Groups of ranks that differ only along `names`, each in the order of these axes as the mesh has them; no names:
  // groups of one rank. ValueError where a name stands twice.
  Partition groups(const std::vector<std::string>& names) const;

  // "dp=2,tp=2".
  std::string str() const;

 private:
  size_t place_of(std::string_view axis) const;

  std::vector<MeshAxis> axes_;
  int ranks_;
};

}  // namespace heddle::distributed
