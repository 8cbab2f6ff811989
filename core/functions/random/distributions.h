// Random numbers of more distributions, composed of uniform() and normal() of random.h.
//
// Purpose: Philox draws with a seed's same bits on every device; logarithms and the like may differ in the last place
// between devices. Values are f32, indices i64. The generator is that of the process unless given. Errors: ValueError
// for parameters, DTypeError, ShapeError. Thread safety: recording is per thread.
#pragma once

#include "heddle/core/graph/tensor.h"

namespace heddle {

struct Generator;  // core/functions/random/generator.h

// Whole numbers in [low, high), at most 2^40 of them, i64: 48 random bits modulo their number.
Tensor randint(int64_t low, int64_t high, const Shape& shape, DeviceContext* device = nullptr,
               Generator* generator = nullptr, Caller caller = Caller::current());
// 0, 1, ..., count - 1 in random order, i64.
Tensor randperm(int64_t count, DeviceContext* device = nullptr, Generator* generator = nullptr,
                Caller caller = Caller::current());
// Density rate e^(-rate x) for x >= 0.
Tensor exponential(const Shape& shape, double rate = 1, DeviceContext* device = nullptr, Generator* generator = nullptr,
                   Caller caller = Caller::current());
// location - scale log(-log u): always finite. Its mean is location + 0.5772 scale.
Tensor gumbel(const Shape& shape, double location = 0, double scale = 1, DeviceContext* device = nullptr,
              Generator* generator = nullptr, Caller caller = Caller::current());
Tensor laplace(const Shape& shape, double location = 0, double scale = 1, DeviceContext* device = nullptr,
               Generator* generator = nullptr, Caller caller = Caller::current());
// Has no mean; its median is location.
Tensor cauchy(const Shape& shape, double location = 0, double scale = 1, DeviceContext* device = nullptr,
              Generator* generator = nullptr, Caller caller = Caller::current());
// e to a normal number of that mean and standard deviation.
Tensor log_normal(const Shape& shape, double mean = 0, double deviation = 1, DeviceContext* device = nullptr,
                  Generator* generator = nullptr, Caller caller = Caller::current());
// A normal number given that it lies in [low, high], by the inverse of the distribution function. ValueError where f32
// cannot tell the ends apart (about five deviations out).
Tensor truncated_normal(const Shape& shape, double mean = 0, double deviation = 1, double low = -2, double high = 2,
                        DeviceContext* device = nullptr, Generator* generator = nullptr,
                        Caller caller = Caller::current());
// (..., C) weights, not negative and of any sum: (..., count) classes, i64. Without replacement each row's are distinct
// (where it has so many weights above 0). Gumbel noise on their logarithms: Kool et al., "Stochastic beams and where to
// find them", 2019.
Tensor multinomial(const Tensor& weights, int64_t count, bool replacement = false, Generator* generator = nullptr,
                   Caller caller = Caller::current());
// A class along the axis by log-probabilities of any offset, i64.
Tensor categorical(const Tensor& logits, int axis = -1, Generator* generator = nullptr,
                   Caller caller = Caller::current());
// softmax((logits + Gumbel noise) / temperature); hard: the one-hot class of the largest with that softmax's gradient.
// Jang et al., "Categorical reparameterization with Gumbel-softmax", 2017.
Tensor gumbel_softmax(const Tensor& logits, double temperature = 1, bool hard = false, int axis = -1,
                      Generator* generator = nullptr, Caller caller = Caller::current());

}  // namespace heddle
