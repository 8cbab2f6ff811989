// Gradient check: analytic directional derivatives against finite differences, to second order.
//
// Purpose: the test of a derivative. f maps tensors to tensors; L(x) = sum of <u_k, f_k(x)> with fixed random u_k.
// First order: <grad L, v> against a five-point difference of L along a random v. Second order: the same for G(x) =
// <grad L(x), v> along a random w.
// Invariants: inputs are f64 and live on the reference device, where arithmetic is double; the seed fixes every
// direction.
// Thread safety: as recording: per thread.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "heddle/core/graph/tensor.h"

namespace heddle {

using GradcheckFunction = std::function<std::vector<Tensor>(std::span<const Tensor> inputs)>;

struct GradcheckOptions {
  double step = 1e-3;       // of the difference; the directions have unit length per element
  double tolerance = 1e-6;  // |analytic - numeric| <= tolerance * (1 + |numeric|)
  int directions = 2;
  int order = 2;  // 1 or 2
  uint64_t seed = 1;
};

struct GradcheckResult {
  bool ok = true;
  double worst = 0;     // largest |analytic - numeric| / (1 + |numeric|)
  std::string message;  // what failed, with both numbers; empty when ok
};

// `inputs` are f64 leaves on the reference device; ValueError otherwise.
GradcheckResult gradcheck(const GradcheckFunction& f, std::span<const Tensor> inputs,
                          const GradcheckOptions& options = {});

}  // namespace heddle
