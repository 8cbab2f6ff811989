// Resampling and other functions of images and features.
//
// Purpose: composed ones; arguments mean what PyTorch's mean, and gradients of any order come from the parts'. Integers
// are cast to f32; f16 and bf16 are computed in f32. Errors: ShapeError, DTypeError, ValueError. Thread safety:
// recording is per thread.
#pragma once

#include <cstdint>
#include <vector>

#include "heddle/core/graph/tensor.h"

namespace heddle {

struct Generator;

enum class Interpolation { nearest, linear, cubic };
struct InterpolateOptions {
  std::vector<int64_t> size;  // either this or scale: one entry for each spatial dimension, or one for all
  std::vector<double> scale;  // size: floor(size * scale)
  Interpolation mode = Interpolation::nearest;
  bool align_corners = false;  // of linear and cubic: the corners' centres stay where they are
};
// x (N, C, spatial...) of one to three dimensions, resampled along one dimension after the other: a product with a
// matrix of weights. Cubic: Keys' kernel with a = -3/4, edges repeated. Keys, "Cubic convolution interpolation for
// digital image processing", 1981.
Tensor interpolate(const Tensor& x, const InterpolateOptions& options, Caller caller = Caller::current());

// An affine grid for grid_sample: theta (N, 2, 3) times (x, y, 1) at the pixels of an (N, C, H, W) image, in [-1, 1]:
// (N, H, W, 2).
Tensor affine_grid(const Tensor& theta, const std::vector<int64_t>& size, bool align_corners = false,
                   Caller caller = Caller::current());
enum class GridPadding { zeros, border, reflection };
struct GridOptions {
  Interpolation mode = Interpolation::linear;  // nearest: halves to even, as PyTorch, and no gradient for the grid;
                                               // cubic as in interpolate()
  GridPadding padding = GridPadding::zeros;
  bool align_corners = false;
};
// x (N, C, H, W) at grid (N, h, w, 2) of (x, y) in [-1, 1]: (N, C, h, w). The grid must be finite. Reflection is at the
// edges: at the centres of the outer pixels with align_corners, else half a pixel outside. Jaderberg et al., "Spatial
// transformer networks", 2015.
Tensor grid_sample(const Tensor& x, const Tensor& grid, const GridOptions& options = {},
                   Caller caller = Caller::current());

// x / (k + alpha * mean of x^2 over `size` neighbouring channels)^beta for x (N, C, ...). Krizhevsky et al., "ImageNet
// classification", 2012.
Tensor local_response_norm(const Tensor& x, int64_t size, double alpha = 1e-4, double beta = 0.75, double k = 1,
                           Caller caller = Caller::current());

// Dropout of whole channels of x (N, C, ...): Tompson et al., "Efficient object localization", 2015.
Tensor feature_dropout(const Tensor& x, double p = 0.5, bool training = true, Generator* generator = nullptr,
                       Caller caller = Caller::current());

enum class BagMode { sum, mean, max };
// Rows of weight (rows, D) by indices (B, L), reduced over L: (B, D). An empty bag gives zeros.
Tensor embedding_bag(const Tensor& indices, const Tensor& weight, BagMode mode = BagMode::mean,
                     Caller caller = Caller::current());

}  // namespace heddle
