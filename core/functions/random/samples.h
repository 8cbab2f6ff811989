// Draws from distributions whose parameters are tensors.
//
// Purpose: gamma numbers and what is made of them, and Poisson numbers, composed of uniform and normal Philox draws
// (core/functions/random/distributions.h says what holds for all). A fixed number of attempts at each element instead
// of a loop: the graph is the same in every step. Draws have no gradient in their parameters. f32. Errors: DTypeError,
// ShapeError, ValueError. Thread safety: recording is per thread.
#pragma once

#include "heddle/core/graph/tensor.h"

namespace heddle {

struct Generator;

// Density proportional to x^(a - 1) e^(-rate x), a = concentration > 0 (NaN otherwise). Marsaglia and Tsang, "A simple
// method for generating gamma variables", 2000: six attempts, of which each succeeds with 0.95 or more; the last one is
// taken as it is (once in 10^8 draws, a value near a).
Tensor gamma(const Tensor& concentration, double rate = 1, Generator* generator = nullptr,
             Caller caller = Caller::current());
Tensor beta(const Tensor& a, const Tensor& b, Generator* generator = nullptr,
            Caller caller = Caller::current());  // shapes broadcast
Tensor dirichlet(const Tensor& concentration, Generator* generator = nullptr,
                 Caller caller = Caller::current());  // along the last axis
Tensor chi_squared(const Tensor& freedom, Generator* generator = nullptr, Caller caller = Caller::current());
Tensor student_t(const Tensor& freedom, Generator* generator = nullptr, Caller caller = Caller::current());
// Whole numbers k with probability rate^k e^-rate / k!, f32; NaN for a rate that is negative, infinite or NaN. Below a
// rate of 10 the distribution function is inverted, above it numbers are accepted or drawn again: Hormann, "The
// transformed rejection method for generating Poisson random variables", 1993, algorithm PTRS: eight attempts, of which
// each succeeds with 0.8 or more; where none does (once in 10^6 draws) the draw is the rate, rounded down.
Tensor poisson(const Tensor& rate, Generator* generator = nullptr, Caller caller = Caller::current());

}  // namespace heddle
