// Grids and samples of volumes, (N, C, D, H, W), as AffineGrid and GridSample have them, and what they are made of.
// Thread safety: as for Tensors.
#pragma once

#include <vector>

#include "heddle/onnx/ops/build.h"

namespace heddle::onnx::build {

// One neighbour of every point along an axis: its place among the elements, i32, and how much it counts, which is
// nothing outside of them.
struct Neighbour {
  Tensor place, weight;
};
// Those of points at `at`, of any shape, in an axis of `size` elements: one, or the two that a point lies between.
std::vector<Neighbour> neighbours(const Tensor& at, int64_t size, Interpolation mode);

// theta (N, 3, 4), size {N, C, D, H, W}: (N, D, H, W, 3) in f32.
Tensor volume_grid(const Call& c, const Tensor& theta, const std::vector<int64_t>& size, bool align);
// x (N, C, D, H, W), grid (N, d, h, w, 3): (N, C, d, h, w) in f32; linear and nearest.
Tensor volume_sample(const Call& c, const Tensor& x, const Tensor& grid, const GridOptions& how);

}  // namespace heddle::onnx::build
