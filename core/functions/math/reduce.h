// Reductions of axes.
//
// axes {} means all; keepdim keeps reduced axes with size 1. Integers: sum and prod give i64 (bool and narrow integers
// too), max/min keep the dtype, mean/var/logsumexp give floats (integers cast to f32). argmax/argmin take one axis (or
// none: flattened), give i64, first index on ties. Empty reductions: sum 0, prod 1, mean NaN; max/min/argmax throw
// ShapeError. NaN propagates. Thread safety: recording is per thread.
#pragma once

#include <optional>
#include <vector>

#include "heddle/core/graph/tensor.h"

namespace heddle {

Tensor sum(const Tensor& x, std::vector<int> axes = {}, bool keepdim = false, Caller caller = Caller::current());
Tensor mean(const Tensor& x, std::vector<int> axes = {}, bool keepdim = false, Caller caller = Caller::current());
Tensor max(const Tensor& x, std::vector<int> axes = {}, bool keepdim = false, Caller caller = Caller::current());
Tensor min(const Tensor& x, std::vector<int> axes = {}, bool keepdim = false, Caller caller = Caller::current());
Tensor prod(const Tensor& x, std::vector<int> axes = {}, bool keepdim = false, Caller caller = Caller::current());
Tensor argmax(const Tensor& x, std::optional<int> axis = {}, bool keepdim = false, Caller caller = Caller::current());
Tensor argmin(const Tensor& x, std::optional<int> axis = {}, bool keepdim = false, Caller caller = Caller::current());
// Population variance divides by n - correction (correction 1: Bessel, PyTorch's default).
Tensor var(const Tensor& x, std::vector<int> axes = {}, bool keepdim = false, double correction = 1,
           Caller caller = Caller::current());
Tensor logsumexp(const Tensor& x, std::vector<int> axes = {}, bool keepdim = false, Caller caller = Caller::current());

}  // namespace heddle
