// Random numbers: uniform, normal, and what is composed of them. More distributions: distributions.h.
//
// Every draw is a function of the generator's seed and offset. Errors: ValueError, DTypeError. Thread safety: recording
// is per thread.
#pragma once

#include <cstdint>

#include "heddle/core/functions/random/generator.h"
#include "heddle/core/graph/tensor.h"

namespace heddle {

Tensor uniform(const Shape& shape, double low = 0, double high = 1, DeviceContext* device = nullptr,
               Generator* generator = nullptr, Caller caller = Caller::current());
Tensor normal(const Shape& shape, double mean = 0, double stddev = 1, DeviceContext* device = nullptr,
              Generator* generator = nullptr, Caller caller = Caller::current());
Tensor bernoulli(const Shape& shape, double p, DeviceContext* device = nullptr, Generator* generator = nullptr,
                 Caller caller = Caller::current());  // f32 0 or 1
Tensor dropout(const Tensor& x, double p, bool training = true, Generator* generator = nullptr,
               Caller caller = Caller::current());

}  // namespace heddle
