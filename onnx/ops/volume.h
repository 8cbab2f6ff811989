// Grids and samples of volumes, (N, C, D, H, W), as AffineGrid and GridSample have them. Thread safety: as for Tensors.
#pragma once

#include <vector>

#include "heddle/onnx/ops/build.h"

namespace heddle::onnx::build {

// theta (N, 3, 4), size {N, C, D, H, W}: (N, D, H, W, 3) in f32.
Tensor volume_grid(const Call& c, const Tensor& theta, const std::vector<int64_t>& size, bool align);
// x (N, C, D, H, W), grid (N, d, h, w, 3): (N, C, d, h, w) in f32; linear and nearest.
Tensor volume_sample(const Call& c, const Tensor& x, const Tensor& grid, const GridOptions& how);

}  // namespace heddle::onnx::build
