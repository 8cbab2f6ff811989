// Statistics: reductions, order statistics, histograms and running extremes composed of the functions of reduce.h and
// sort.h.
//
// Purpose: complete the reductions without kernels of their own; gradients of any order come from what they are
// composed of. axes {} means all; keepdim keeps reduced axes with size 1. 16-bit floats are computed in f32 and rounded
// once; integers are cast to f32 where the result is no whole number. NaN propagates but in the nan... functions.
// Errors: ShapeError, DTypeError, ValueError. Thread safety: recording is per thread.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "heddle/core/graph/tensor.h"

namespace heddle {

struct Ordered;  // core/functions/math/sort.h

// ---- tests and counts
Tensor any(const Tensor& x, std::vector<int> axes = {}, bool keepdim = false,
           Caller caller = Caller::current());  // bool; of nothing: false. NaN is true
Tensor all(const Tensor& x, std::vector<int> axes = {}, bool keepdim = false,
           Caller caller = Caller::current());  // bool; of nothing: true
Tensor count_nonzero(const Tensor& x, std::vector<int> axes = {}, bool keepdim = false,
                     Caller caller = Caller::current());  // i64
// i64 (bins): elements in equal parts of [low, high], each part without its upper end but for the last. Others and NaN
// are not counted.
Tensor histogram(const Tensor& x, int64_t bins, double low, double high, Caller caller = Caller::current());
// (length): how often, or with weights of x's shape the sum of weights where, integers x are 0, 1, ..., length - 1.
// Others are not counted.
Tensor bincount(const Tensor& x, int64_t length, Caller caller = Caller::current());  // i64
Tensor bincount(const Tensor& x, const Tensor& weights, int64_t length,
                Caller caller = Caller::current());  // the dtype of the weights

// ---- moments and norms
// The square root of var(); its gradient is 0 where it is 0.
Tensor stddev(const Tensor& x, std::vector<int> axes = {}, bool keepdim = false, double correction = 1,
              Caller caller = Caller::current());
struct VarMean {
  Tensor var, mean;
};
VarMean var_mean(const Tensor& x, std::vector<int> axes = {}, bool keepdim = false, double correction = 1,
                 Caller caller = Caller::current());
// (sum |x|^p)^(1/p); p 0 counts what is not 0, infinity and -infinity give the largest and least |x|. Its gradient is 0
// where it is 0.
Tensor norm(const Tensor& x, double p = 2, std::vector<int> axes = {}, bool keepdim = false,
            Caller caller = Caller::current());
// Of the rows of (variables, observations), or of one variable (observations): the latter gives a scalar.
Tensor cov(const Tensor& x, double correction = 1, Caller caller = Caller::current());
Tensor corrcoef(TensorArg x);
Tensor nansum(const Tensor& x, std::vector<int> axes = {}, bool keepdim = false,
              Caller caller = Caller::current());  // NaN counts as 0
Tensor nanmean(const Tensor& x, std::vector<int> axes = {}, bool keepdim = false,
               Caller caller = Caller::current());  // of what is not NaN

// ---- order statistics, by sorting along one axis. Indices are i64.
struct Extremes {
  Tensor min, max;
};
Extremes aminmax(const Tensor& x, std::vector<int> axes = {}, bool keepdim = false, Caller caller = Caller::current());
// The lower of two middle elements and its index; NaN, and its place, where there is one.
Ordered median(const Tensor& x, int axis = -1, bool keepdim = false, Caller caller = Caller::current());
// The k-th smallest, k from 1; NaN counts as larger than every number.
Ordered kthvalue(const Tensor& x, int64_t k, int axis = -1, bool keepdim = false, Caller caller = Caller::current());
// The place q (n - 1) of the sorted axis (all elements unless given), between two elements by linear interpolation; q
// in [0, 1]. Several q: a new first axis.
Tensor quantile(const Tensor& x, double q, std::optional<int> axis = {}, bool keepdim = false,
                Caller caller = Caller::current());
Tensor quantile(const Tensor& x, std::span<const double> q, std::optional<int> axis = {}, bool keepdim = false,
                Caller caller = Caller::current());

// ---- along an axis
// The largest (smallest) so far and where it was last: two scans.
Ordered cummax(const Tensor& x, int axis, Caller caller = Caller::current());
Ordered cummin(const Tensor& x, int axis, Caller caller = Caller::current());
Tensor logcumsumexp(const Tensor& x, int axis,
                    Caller caller = Caller::current());  // log of the running sum of e^x, without overflow: a scan
Tensor diff(const Tensor& x, int times = 1, int axis = -1,
            Caller caller = Caller::current());  // x[i + 1] - x[i]; bool: whether they differ
// The integral of y by the trapezoidal rule; x: the places, y's shape or the axis' length, else dx apart.
Tensor trapezoid(const Tensor& y, double dx = 1, int axis = -1, Caller caller = Caller::current());
Tensor trapezoid(const Tensor& y, const Tensor& x, int axis = -1, Caller caller = Caller::current());
Tensor softmin(const Tensor& x, int axis = -1, Caller caller = Caller::current());  // softmax(-x)

}  // namespace heddle
