// OpCut: how the ranks of a mesh divide one operation. Internal to distributed (auto_shard.h).
//
// Purpose: an axis that cuts an input cuts a factor of the operation (op_factors.h). Of all ways to give each axis one
// of the factors that it cuts already, the one for which a rank sends least is taken, of equal ones the first: bytes of
// moving the inputs to it, and of joining the result where the factor is reduced. An axis without such a factor, or
// that does not divide it, cuts nothing. Invariants: the choice follows from shapes and layouts alone, so it is the
// same on all ranks. Thread safety: pure.
#pragma once

#include <limits>
#include <vector>

#include "heddle/core/graph/mesh_scope.h"
#include "heddle/core/graph/node.h"
#include "heddle/core/graph/tensor.h"
#include "heddle/distributed/layout.h"
#include "heddle/distributed/op_factors.h"

namespace heddle::distributed {

// A value of the program that the ranks run: the rank's part.
struct Placed {
  Tensor part;
  Layout layout;
};

class OpCut {
 public:
  // `node` and its inputs have the shapes of the whole; `inputs` have no partial sums. All outlive it.
  OpCut(const Node& node, const std::vector<const Placed*>& inputs, const MeshScope& scope);

  // How each input has to lie, and how the result then does.
  Layout of_input(size_t i) const { return input_layout(i, best_.factors); }
  Layout of_result() const { return result_layout(best_.factors); }
  // Axes along which the parts of the result are still to be joined by that.
  AxisMask reduced(Factor::Reduction reduction) const { return reduced(reduction, best_.factors); }

 private:
  using Factors = std::vector<int>;  // that each axis of the mesh cuts; -1: none
  struct Choice {
    Factors factors;
    double bytes = std::numeric_limits<double>::infinity();
  };

  Factors candidates(size_t axis) const;
  void choose(Factors& chosen, size_t axis);
  bool divides(const Factors& chosen, int factor) const;
  void consider(const Factors& chosen);
  Layout input_layout(size_t i, const Factors& chosen) const;
  Layout result_layout(const Factors& chosen) const;
  AxisMask reduced(Factor::Reduction reduction, const Factors& chosen) const;

  const Node& node_;
  const std::vector<const Placed*>& inputs_;
  const MeshScope& scope_;
  std::vector<Factor> factors_;
  size_t axes_;
  Choice best_;
};

}  // namespace heddle::distributed
