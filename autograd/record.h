// What the transforms share: stand-ins for arguments, grad mode, and the forward-mode walk. Internal to autograd.
//
// Invariants: a stand-in is a node of its own that means its tensor and tracks whatever the tensor does, so that what
// leads to it is told apart from what leads to the tensor by another way. Thread safety: recording is per thread.
#pragma once

#include <span>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "heddle/core/graph/node.h"
#include "heddle/core/graph/tensor.h"

namespace heddle::autograd {

class GradMode {
 public:
  explicit GradMode(bool on) : before_(grad_mode()) { set_grad_mode(on); }
  ~GradMode() { set_grad_mode(before_); }
  GradMode(const GradMode&) = delete;
  GradMode& operator=(const GradMode&) = delete;

 private:
  bool before_;
};

Tensor stand_in(const Tensor& x);
// One of zeros, which varies between ranks as `like` does: else what it is mixed with would sum its cotangent over
// them.
Tensor zero_stand_in(const Node& like);

// Whether `outputs` depend on anything that tracks other than through `stand_ins`: then what a transform makes of them
// must track as well.
bool tracks_outside(std::span<const Tensor> outputs, std::span<const Tensor> stand_ins);

using Tangents = std::unordered_map<const Node*, Tensor>;
// Forward mode: the tangents of `outputs` from those of some nodes; undefined means zero. Nothing is asked of what is
// behind nodes in `tangents`. The rows are applied directly where they are elementwise, linear or bilinear; for others
// the gradient rule is transposed, as it is linear in its cotangent.
std::vector<Tensor> push_forward(std::span<const Tensor> outputs, Tangents tangents);

// sum over i of rule_i(t_i)^T: what the transposed rule of `node` gives for tangents of its inputs, undefined ones
// being zero.
Tensor transposed_rule(const Node& node, const Tensor& value, std::span<const Tensor> inputs,
                       std::span<const Tensor> tangents);

}  // namespace heddle::autograd
