// evaluate_in_order(): pending values one after the other, each handed over as soon as it is there.
//
// Purpose: what is read and let go of need not lie on the device together, such as gradients that leave for other
// processes. What is computed on the way and read later is kept until then, and nothing is computed twice but what a
// checkpoint marks, constants and views (core/run/segments.h). A program does so in a loop: kernels that its graphs
// alone need are worth compiling (core/run/chains.h). Within a LenderScope graphs are cut where they borrow as well
// (core/run/lent_segments.h). Invariants: while `made` is called the device computes
// the value after that one; once it returns the value is freed where nobody else holds it. Behind all values everything
// pending on the thread is evaluated; assigns are made there. Errors: those of evaluation and of `made`, behind which
// nothing more is handed over. Thread safety: as evaluate(). Defined in core/run/evaluate_in_order.cpp.
#pragma once

#include <cstddef>
#include <vector>

#include "heddle/core/base/callable.h"
#include "heddle/core/graph/tensor.h"

namespace heddle {

// `values`: of one device, not empty handles. Not within a function that compile() records.
void evaluate_in_order(std::vector<Tensor> values, const Callable<void(size_t place, const Tensor& value)>& made);

}  // namespace heddle
