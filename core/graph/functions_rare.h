// Functions that few programs need. heddle.h includes them, core/graph/functions.h does not.
//
// Purpose: the rest of torch.special, torch.nn.functional and torch.distributions that Heddle has, beside the families of core/graph/functions_*.h, whose rules hold here: gradients of any
// order, integers cast to f32, f16 and bf16 computed in f32, draws by Philox. Errors: ShapeError, DTypeError, ValueError. Thread safety: recording is per thread.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "core/graph/functions.h"

namespace heddle {

// ---- special functions
// Bessel functions of the second kind: NaN below 0, -infinity at 0. Up to x = 1000 the absolute error in f32 is 1e-6.
Tensor bessel_y0(TensorArg x);
Tensor bessel_y1(TensorArg x);
// The incomplete gamma functions, regularised: the integral of t^(a - 1) e^-t / Gamma(a) from 0 to x, and from x to infinity; a, x >= 0, NaN elsewhere. Power series below x = a + 1,
// a continued fraction above (A & S 6.5.29, 6.5.31), Temme's expansion for a > 1000, where the absolute error in f32 is 1e-6. The gradient is in x; as in PyTorch there is none in a.
Tensor igamma(TensorArg a, const Tensor& x);
Tensor igammac(TensorArg a, const Tensor& x);

// ---- arrangement
// The most frequent value of each row, of several the smallest, and the index of its first occurrence; each NaN counts for itself.
Ordered mode(const Tensor& x, int axis = -1, bool keepdim = false, Caller caller = Caller::current());
// The subsets of `count` elements of a vector (n), in the order of their places, as rows; with replacement an element may stand in one more than once.
Tensor combinations(TensorArg x, int64_t count = 2, bool with_replacement = false);

// ---- pooling
// Largest of windows of the kernel's size that begin at random places and cover x (N, C, H, W): output (h, w) of them, of each image and channel its own. `samples` (N, C, 2) in [0, 1) say where
// (the first of a pair is that of the width, as in PyTorch); undefined: drawn. Graham, "Fractional max-pooling", 2014.
Pooled fractional_max_pool2d(const Tensor& x, std::vector<int64_t> kernel, std::vector<int64_t> output, const Tensor& samples = {}, Generator* generator = nullptr,
                             Caller caller = Caller::current());

// ---- losses
// triplet_margin_loss() with a distance of the user's: a function of two batches (N, D) that gives one number for each row (N).
struct TripletDistanceOptions {
  double margin = 1;
  bool swap = false;
  Reduction reduction = Reduction::mean;
};
using Distance = std::function<Tensor(const Tensor& a, const Tensor& b)>;
Tensor triplet_margin_with_distance_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative, const Distance& distance, const TripletDistanceOptions& options = {},
                                         Caller caller = Caller::current());
// Softmax over many classes of which few are frequent. x (N, D), class numbers targets (N). head (S + T, D): a row for each of the S frequent classes and for each of the T clusters of the
// others; tails: for each cluster a projection (D', D) and a row for each of its classes (C', D'), whose numbers follow those before. `output` (N): the log-probability of each target, which is
// that of its cluster times that inside it; `loss`: minus their mean. Every cluster is computed for every row: which rows need it is known on the device alone, and shapes do not depend on data.
// Grave et al., "Efficient softmax approximation for GPUs", 2017.
struct AdaptiveTail {
  Tensor projection, rows;
};
struct AdaptiveLogSoftmax {
  Tensor output, loss;
};
AdaptiveLogSoftmax adaptive_log_softmax_with_loss(const Tensor& x, const Tensor& targets, const Tensor& head, std::span<const AdaptiveTail> tails, Caller caller = Caller::current());

// ---- random numbers
// Whole numbers k with probability rate^k e^-rate / k!, f32; NaN for a rate that is negative, infinite or NaN. Below a rate of 10 the distribution function is inverted, above it numbers are
// accepted or drawn again: Hormann, "The transformed rejection method for generating Poisson random variables", 1993, algorithm PTRS: eight attempts, of which each succeeds with 0.8 or more;
// where none does (once in 10^6 draws) the draw is the rate, rounded down.
Tensor poisson(const Tensor& rate, Generator* generator = nullptr, Caller caller = Caller::current());

}  // namespace heddle
