// Products that are part of something else. Internal to core/functions, beside build.h. Thread safety: recording is per
// thread.
#pragma once

#include "heddle/core/graph/tensor.h"

namespace heddle::build {

// A product with its bias: rounded to the product's dtype within a scope, so that an f32 bias makes no f32 value.
Tensor add_bias(const Tensor& product, const Tensor& bias);
// The same product, which nobody has seen, not rounded before the sum that it is recorded for
// (core/graph/excess_precision.h).
const Tensor& part_of_sum(const Tensor& product);
// A product that is part of something else (a transform, a solver, an interpolation): no scope makes it narrow.
Tensor plain_matmul(const Tensor& a, const Tensor& b);

}  // namespace heddle::build
