// Creation: constants are nodes without memory; nothing is written until a kernel uses them.
//
// On the device given, or the default. Errors: ValueError, DTypeError. Thread safety: recording is per thread.
#pragma once

#include <cstdint>

#include "heddle/core/graph/tensor.h"

namespace heddle {

Tensor full(const Shape& shape, double value, DType dtype = DType::f32, DeviceContext* device = nullptr,
            Caller caller = Caller::current());
Tensor zeros(const Shape& shape, DType dtype = DType::f32, DeviceContext* device = nullptr,
             Caller caller = Caller::current());
Tensor ones(const Shape& shape, DType dtype = DType::f32, DeviceContext* device = nullptr,
            Caller caller = Caller::current());
Tensor full_like(const Tensor& x, double value, Caller caller = Caller::current());
Tensor zeros_like(TensorArg x);
Tensor ones_like(TensorArg x);
Tensor arange(double start, double stop, double step = 1, DType dtype = DType::f32, DeviceContext* device = nullptr,
              Caller caller = Caller::current());
Tensor linspace(double start, double stop, int64_t count, DType dtype = DType::f32, DeviceContext* device = nullptr,
                Caller caller = Caller::current());
Tensor eye(int64_t rows, int64_t columns = -1, DType dtype = DType::f32, DeviceContext* device = nullptr,
           Caller caller = Caller::current());

}  // namespace heddle
