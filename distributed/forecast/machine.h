// Machine: what one rank's device can do, for forecasts.
//
// Purpose: seconds of matrix products and of memory traffic. A product of (m, k) by (k, n) reaches
//   efficiency * peak * m/(m+h) * n/(n+h) * k/(k+h),
// with the half size h: Hockney's n_1/2 (Hockney and Jesshope 1981, "Parallel Computers", 1.3), by dimension.
// Invariants: symmetric in the sizes, so the products of a gradient are as efficient as the one that they belong to.
// Errors: check() throws ValueError that names the key. Thread safety: plain value, pure functions.
#pragma once

#include <string>

#include "heddle/core/base/dtype.h"

namespace heddle::distributed {

struct Machine {
  double flops_f32 = 0, flops_f16 = 0, flops_bf16 = 0;  // at the peak, a second
  double memory = 0;                                    // bytes
  double memory_bandwidth = 0;                          // bytes a second
  double efficiency = 1;                                // share of the peak that large products reach
  double cut = 0;        // seconds for which a step that is cut, to send or to get something, computes nothing
  double record = 0;     // seconds of the host that recording a whole step takes, where it is not replayed
  double half_size = 0;  // size at which a dimension costs half of the speed

  // ValueError for a dtype of which it says nothing.
  double flops(DType dtype) const;
};

// ValueError for values that cannot be: "[link] machine.efficiency is 2; it must be above 0 and at most 1".
void check(const Machine& machine);

// Sizes of a matrix product; 0: unknown, it costs nothing of the efficiency.
struct ProductSizes {
  double rows = 0, inner = 0, columns = 0;
};
// Of so many operations, in products of those sizes.
double product_seconds(const Machine& machine, DType dtype, double flops, const ProductSizes& sizes);
double traffic_seconds(const Machine& machine, double bytes);

}  // namespace heddle::distributed
