// Initialisers: first values of parameters.
//
// Purpose: equal seeds give equal weights on every device, bit for bit: numbers are drawn on the host from the Philox
// stream of the generator (core/graph/philox.h) and uploaded. Element n of draw k with seed s is philox_uniform({s low,
// s high, k low, k high}, n). The uniform ones take one draw; the normal ones two, for length and angle of Box-Muller,
// as normal() does. Fans follow PyTorch: for a weight (out, in, ...) fan_in = in * (rest), fan_out = out * (rest).
//
// Invariants: the tensor keeps its shape, dtype, device and requires_grad.
// Errors: ValueError (bad bounds), ShapeError (no fans below rank 2).
// Thread safety: as the generator: one thread at a time.
#pragma once

#include "heddle/core/functions/functions.h"

namespace heddle::nn::init {

void constant(Tensor& x, double value);
void zeros(Tensor& x);
void ones(Tensor& x);
void uniform(Tensor& x, double low, double high, Generator* generator = nullptr);
void normal(Tensor& x, double mean = 0, double stddev = 1, Generator* generator = nullptr);

// Bounds gain * sqrt(6 / (fan_in + fan_out)); stddev gain * sqrt(2 / (fan_in + fan_out)).
void xavier_uniform(Tensor& x, double gain = 1, Generator* generator = nullptr);
void xavier_normal(Tensor& x, double gain = 1, Generator* generator = nullptr);

// Bounds sqrt(6 / ((1 + slope^2) fan)); slope is that of a leaky ReLU behind the layer, 0 for ReLU; sqrt(5) is
// PyTorch's default of Linear.
enum class Fan { in, out };
void kaiming_uniform(Tensor& x, double slope = 0, Fan fan = Fan::in, Generator* generator = nullptr);
void kaiming_normal(Tensor& x, double slope = 0, Fan fan = Fan::in, Generator* generator = nullptr);

// While alive, initialisers of this thread leave tensors as they are and draw nothing: for networks whose shapes alone
// are asked for (nn/summary.h), as 1,557,611,200 numbers take a while.
class SkipScope {
 public:
  SkipScope();
  ~SkipScope();
  SkipScope(const SkipScope&) = delete;
  SkipScope& operator=(const SkipScope&) = delete;

 private:
  bool before_;
};

struct Fans {
  int64_t in = 0;
  int64_t out = 0;
};
Fans fans_of(const Shape& shape);

}  // namespace heddle::nn::init
