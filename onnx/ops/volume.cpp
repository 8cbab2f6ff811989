// Sampling of volumes, (N, C, D, H, W), for image.inc: Heddle's own functions are of images.
#include "heddle/onnx/ops/volume.h"

namespace heddle::onnx::build {
namespace {

// Where a grid's number lies among the elements of an axis.
Tensor position(const Tensor& v, int64_t size, bool align) {
  const auto n = static_cast<double>(size);
  return align ? (v + 1.0) * ((n - 1) / 2) : ((v + 1.0) * n - 1.0) * 0.5;
}

// Brought inside as the padding says; zeros: as it is.
Tensor padded(const Tensor& at, int64_t size, const GridOptions& how) {
  const auto last = static_cast<double>(size - 1);
  if (how.padding == GridPadding::zeros) return at;
  if (how.padding == GridPadding::border) return clamp(at, 0, last);
  const double low = how.align_corners ? 0 : -0.5, span = how.align_corners ? last : static_cast<double>(size);
  if (span == 0) return zeros_like(at);
  const Tensor distance = heddle::abs(at - low), turns = heddle::floor(distance * (1 / span)),
               rest = distance - turns * span;
  const Tensor even = 2.0 * heddle::floor(0.5 * turns) == turns;
  return clamp(low + where(even, rest, span - rest), 0, last);
}

Neighbour neighbour(const Tensor& place, const Tensor& weight, int64_t size) {
  const auto last = static_cast<double>(size - 1);
  const Tensor inside = heddle::logical_and(place >= 0.0, place <= last);
  return {heddle::cast(clamp(place, 0, last), DType::i32), where(inside, weight, 0.0)};
}

}  // namespace

std::vector<Neighbour> neighbours(const Tensor& at, int64_t size, Interpolation mode) {
  if (mode == Interpolation::nearest) return {neighbour(heddle::round(at), ones_like(at), size)};
  const Tensor low = heddle::floor(at), part = at - low;
  return {neighbour(low, 1.0 - part, size), neighbour(low + 1.0, part, size)};
}

// The linear map of each example at the points of a regular grid.
Tensor volume_grid(const Call& c, const Tensor& theta, const std::vector<int64_t>& size, bool align) {
  if (theta.rank() != 3 || theta.dim(0) != size[0] || theta.dim(1) != 3 || theta.dim(2) != 4)
    c.fail("theta is not (N, 3, 4)");
  std::vector<Tensor> axes;  // x, y, z of every point
  const Shape points{size[2], size[3], size[4]};
  for (int axis = 2; axis >= 0; --axis) {
    const int64_t count = points[axis];
    const Tensor i = arange(0, static_cast<double>(count), 1, DType::f32, &c.device());
    const auto n = static_cast<double>(count);
    const Tensor line = align ? i * (count > 1 ? 2 / (n - 1) : 0) - (count > 1 ? 1.0 : 0.0) : (2.0 * i + 1.0) / n - 1.0;
    const Shape along = axis == 0 ? Shape{count, 1, 1} : axis == 1 ? Shape{1, count, 1} : Shape{1, 1, count};
    axes.push_back(reshape(expand(reshape(line, along), points), Shape{1, points.numel(), 1}));
  }
  const Tensor t = transpose(heddle::cast(theta, DType::f32), 1, 2);  // (N, 4, 3)
  Tensor grid = narrow(t, 1, 3, 1);
  for (size_t k = 0; k < 3; ++k) grid = grid + axes[k] * narrow(t, 1, static_cast<int64_t>(k), 1);
  return reshape(grid, Shape{size[0], size[2], size[3], size[4], 3});
}

Tensor volume_sample(const Call& c, const Tensor& x, const Tensor& grid, const GridOptions& how) {
  if (how.mode == Interpolation::cubic) c.unsupported("mode cubic on volumes");
  if (grid.rank() != 5 || grid.dim(0) != x.dim(0) || grid.dim(4) != 3) c.fail("the grid is not (N, D, H, W, 3)");
  const int64_t n = x.dim(0), channels = x.dim(1), points = grid.dim(1) * grid.dim(2) * grid.dim(3);
  const Tensor at = reshape(heddle::cast(grid, DType::f32), Shape{n, points, 3}),
               values = reshape(heddle::cast(x, DType::f32), Shape{n, channels, x.dim(2) * x.dim(3) * x.dim(4)});
  std::vector<Neighbour> axes[3];  // of D, H, W; the grid names W first
  for (int axis = 0; axis < 3; ++axis) {
    const int64_t size = x.dim(axis + 2);
    const Tensor along = position(select(at, 2, 2 - axis), size, how.align_corners);
    axes[axis] = neighbours(padded(along, size, how), size, how.mode);
  }
  Tensor sum;
  for (const Neighbour& z : axes[0]) {
    for (const Neighbour& y : axes[1]) {
      for (const Neighbour& w : axes[2]) {
        const Tensor place =
            (z.place * static_cast<double>(x.dim(3)) + y.place) * static_cast<double>(x.dim(4)) + w.place;
        const Tensor taken = gather(values, 2, expand(unsqueeze(place, 1), Shape{n, channels, points}));
        const Tensor part = taken * unsqueeze(z.weight * y.weight * w.weight, 1);
        sum = sum.defined() ? sum + part : part;
      }
    }
  }
  return reshape(sum, Shape{n, channels, grid.dim(1), grid.dim(2), grid.dim(3)});
}

}  // namespace heddle::onnx::build
