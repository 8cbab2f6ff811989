// Pooling over one to three spatial dimensions.
//
// Purpose: shapes and arguments mean what PyTorch's mean. x is (N, C, spatial...) or (C, spatial...); windows of a
// maximum or a sum are strided slices combined element by element, so that a pool fuses into one kernel; windows of
// many elements are taken along one dimension after the other. Lists have one entry for each spatial dimension, or one
// for all. Size along a dimension: floor((size + 2 padding - dilation (kernel - 1) - 1) / stride) + 1, with `ceil`
// rounded up, as long as the last window begins inside the input or the padding before it. Integers are cast to f32. A
// maximum's gradient goes to the first largest element of the window in row-major order, as in PyTorch (adaptive and
// global maxima share it evenly); NaN propagates. Errors: ShapeError, ValueError. Thread safety: recording is per
// thread.
#pragma once

#include <cstdint>
#include <vector>

#include "heddle/core/graph/tensor.h"

namespace heddle {

struct Generator;

struct PoolOptions {
  std::vector<int64_t> stride;    // empty: the kernel
  std::vector<int64_t> padding;   // empty: 0; at most half of the window. A maximum takes it as -infinity
  std::vector<int64_t> dilation;  // empty: 1; of maxima only
  bool ceil = false;
  bool count_padding = true;  // averages: padding counts as elements (zeros); PyTorch's count_include_pad
};

Tensor max_pool1d(const Tensor& x, std::vector<int64_t> kernel, const PoolOptions& options = {},
                  Caller caller = Caller::current());
Tensor max_pool2d(const Tensor& x, std::vector<int64_t> kernel, const PoolOptions& options = {},
                  Caller caller = Caller::current());
Tensor max_pool3d(const Tensor& x, std::vector<int64_t> kernel, const PoolOptions& options = {},
                  Caller caller = Caller::current());
// `indices`: i64, where in the flattened spatial dimensions of x the value stood.
struct Pooled {
  Tensor values, indices;
};
Pooled max_pool1d_with_indices(const Tensor& x, std::vector<int64_t> kernel, const PoolOptions& options = {},
                               Caller caller = Caller::current());
Pooled max_pool2d_with_indices(const Tensor& x, std::vector<int64_t> kernel, const PoolOptions& options = {},
                               Caller caller = Caller::current());
Pooled max_pool3d_with_indices(const Tensor& x, std::vector<int64_t> kernel, const PoolOptions& options = {},
                               Caller caller = Caller::current());
Tensor avg_pool1d(const Tensor& x, std::vector<int64_t> kernel, const PoolOptions& options = {},
                  Caller caller = Caller::current());
Tensor avg_pool2d(const Tensor& x, std::vector<int64_t> kernel, const PoolOptions& options = {},
                  Caller caller = Caller::current());
Tensor avg_pool3d(const Tensor& x, std::vector<int64_t> kernel, const PoolOptions& options = {},
                  Caller caller = Caller::current());
// (sum over the window of |x|^p)^(1/p), p > 0; no padding. The gradient of a window of zeros is 0.
Tensor lp_pool1d(const Tensor& x, double p, std::vector<int64_t> kernel, const PoolOptions& options = {},
                 Caller caller = Caller::current());
Tensor lp_pool2d(const Tensor& x, double p, std::vector<int64_t> kernel, const PoolOptions& options = {},
                 Caller caller = Caller::current());

// Bin i of o over n elements is [floor(i n / o), ceil((i + 1) n / o)).
Tensor adaptive_avg_pool1d(const Tensor& x, std::vector<int64_t> size, Caller caller = Caller::current());
Tensor adaptive_avg_pool2d(const Tensor& x, std::vector<int64_t> size, Caller caller = Caller::current());
Tensor adaptive_avg_pool3d(const Tensor& x, std::vector<int64_t> size, Caller caller = Caller::current());
Tensor adaptive_max_pool1d(const Tensor& x, std::vector<int64_t> size, Caller caller = Caller::current());
// Largest of windows of the kernel's size that begin at random places and cover x (N, C, H, W): output (h, w) of them,
// of each image and channel its own. `samples` (N, C, 2) in [0, 1) say where (the first of a pair is that of the width,
// as in PyTorch); undefined: drawn. Graham, "Fractional max-pooling", 2014.
Pooled fractional_max_pool2d(const Tensor& x, std::vector<int64_t> kernel, std::vector<int64_t> output,
                             const Tensor& samples = {}, Generator* generator = nullptr,
                             Caller caller = Caller::current());
Tensor adaptive_max_pool2d(const Tensor& x, std::vector<int64_t> size, Caller caller = Caller::current());
Tensor adaptive_max_pool3d(const Tensor& x, std::vector<int64_t> size, Caller caller = Caller::current());

// (N, C, spatial...) to (N, C, 1...).
Tensor global_avg_pool(TensorArg x);
Tensor global_max_pool(TensorArg x);

}  // namespace heddle
