// Bags of any length, unpooling, dropout for self-normalizing networks.
//
// Purpose: the rest of torch.nn.functional's layers; composed, with PyTorch's meaning. f16 and bf16 are computed in
// f32. Errors: ShapeError, DTypeError, ValueError. Thread safety: recording is per thread.
#pragma once

#include <cstdint>
#include <vector>

#include "heddle/core/functions/nn/image.h"
#include "heddle/core/functions/nn/pool.h"
#include "heddle/core/graph/tensor.h"

namespace heddle {

// Bags of different lengths: indices (n), bag b from offsets[b] (ascending, from 0) to the next one: (B, D). An empty
// bag gives zeros; weights (n) multiply rows, of sums alone.
Tensor embedding_bag(const Tensor& indices, const Tensor& offsets, const Tensor& weight, BagMode mode,
                     const Tensor& weights = {}, Caller caller = Caller::current());

Tensor lp_pool3d(const Tensor& x, double p, std::vector<int64_t> kernel, const PoolOptions& options = {},
                 Caller caller = Caller::current());
// Back from max_pool..d_with_indices: x where its maximum stood, zeros elsewhere. `size`: of the spatial dimensions;
// empty: (n - 1) stride - 2 padding + kernel.
Tensor max_unpool1d(const Tensor& x, const Tensor& indices, std::vector<int64_t> kernel,
                    const PoolOptions& options = {}, std::vector<int64_t> size = {}, Caller caller = Caller::current());
Tensor max_unpool2d(const Tensor& x, const Tensor& indices, std::vector<int64_t> kernel,
                    const PoolOptions& options = {}, std::vector<int64_t> size = {}, Caller caller = Caller::current());
Tensor max_unpool3d(const Tensor& x, const Tensor& indices, std::vector<int64_t> kernel,
                    const PoolOptions& options = {}, std::vector<int64_t> size = {}, Caller caller = Caller::current());

// Keeps mean and variance of a SELU's output: what is dropped becomes SELU's value far below 0. Klambauer et al.,
// "Self-normalizing neural networks", 2017.
Tensor alpha_dropout(const Tensor& x, double p = 0.5, bool training = true, Generator* generator = nullptr,
                     Caller caller = Caller::current());
// The same for whole channels of x (N, C, ...).
Tensor feature_alpha_dropout(const Tensor& x, double p = 0.5, bool training = true, Generator* generator = nullptr,
                             Caller caller = Caller::current());
// leaky_relu with a slope for each element drawn from [low, high); not training: with their mean. Xu et al., 2015.
Tensor rrelu(const Tensor& x, double low = 0.125, double high = 1.0 / 3, bool training = false,
             Generator* generator = nullptr, Caller caller = Caller::current());

}  // namespace heddle
