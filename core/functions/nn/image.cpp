// Resampling, grids, local response norm, feature dropout, embedding bags.
#include "heddle/core/functions/nn/image.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "heddle/core/functions/build.h"
#include "heddle/core/functions/linalg/build_matmul.h"
#include "heddle/core/functions/math/cast.h"
#include "heddle/core/functions/math/elementwise.h"
#include "heddle/core/functions/math/reduce.h"
#include "heddle/core/functions/random/random.h"
#include "heddle/core/functions/shape/create.h"
#include "heddle/core/functions/shape/index.h"
#include "heddle/core/functions/shape/index_check.h"
#include "heddle/core/functions/shape/movement.h"
#include "heddle/core/graph/autocast.h"

namespace heddle {
namespace {

Tensor numbers(int64_t n, DType t, const Tensor& like) {
  return arange(0, static_cast<double>(n), 1, t, &like.device());
}

// One spatial dimension: `ratio` input pixels for each output pixel; `whole` where it is in / out.
struct Axis {
  int64_t in = 0, out = 0;
  double ratio = 1;
  bool whole = true;
};

std::vector<Axis> axes_of(const Tensor& x, const InterpolateOptions& how) {
  const auto rank = static_cast<size_t>(x.rank() - 2);
  if (how.size.empty() == how.scale.empty())
    throw ValueError("[interpolate] give either size or scale, not both or neither");
  const size_t entries = std::max(how.size.size(), how.scale.size());
  if (entries != 1 && entries != rank)
    throw ValueError(
        fmt::format("[interpolate] {} has {} entries; expected one, or {} (one for each spatial dimension)",
                    how.size.empty() ? "scale" : "size", entries, rank));
  std::vector<Axis> axes;
  for (size_t d = 0; d < rank; ++d) {
    const size_t at = entries == 1 ? 0 : d;
    Axis axis{x.dim(static_cast<int>(d) + 2), 0, 1, true};
    if (how.size.empty()) {
      const double scale = how.scale[at];
      if (!(scale > 0) || !(static_cast<double>(axis.in) * scale < 0x1p31))
        throw ValueError(
            fmt::format("[interpolate] scale {} must be positive, and the size it gives below 2^31", scale));
      axis.out = static_cast<int64_t>(std::floor(static_cast<double>(axis.in) * scale));
      axis.whole = static_cast<double>(axis.out) == static_cast<double>(axis.in) * scale;
      axis.ratio = 1 / scale;
    } else {
      axis.out = how.size[at];
    }
    if (axis.in < 1 || axis.out < 1 || axis.out > INT32_MAX)
      throw ShapeError(fmt::format("[interpolate] axis {}: from {} to {} elements; both must be at least 1", d + 2,
                                   axis.in, axis.out));
    if (axis.whole) axis.ratio = static_cast<double>(axis.in) / static_cast<double>(axis.out);
    axes.push_back(axis);
  }
  return axes;
}

// Where output pixels lie among input pixels, f32.
Tensor positions_of(const Axis& a, const Tensor& like, bool align) {
  const Tensor o = numbers(a.out, DType::f32, like);
  if (align) return o * (a.out > 1 ? static_cast<double>(a.in - 1) / static_cast<double>(a.out - 1) : 0);
  return (o + 0.5) * a.ratio - 0.5;
}

// floor(o * ratio), exactly where the ratio is one of whole numbers.
Tensor nearest_of(const Axis& a, const Tensor& like) {
  const Tensor o = numbers(a.out, DType::i32, like);
  if (a.whole && static_cast<double>(a.in) * static_cast<double>(a.out) < 0x1p31) {
    const Tensor product = o * static_cast<double>(a.in);
    return integer_quotient(product, full_like(product, static_cast<double>(a.out)));
  }
  return minimum(cast(floor(cast(o, DType::f32) * a.ratio), DType::i32), static_cast<double>(a.in - 1));
}

// Keys' kernel, a = -3/4, at distance d >= 0.
Tensor cubic_kernel(const Tensor& d) {
  constexpr double a = -0.75;
  const Tensor inner = ((a + 2) * d - (a + 3)) * d * d + 1;
  const Tensor outer = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a;
  return where(d <= 1, inner, where(d < 2, outer, 0));
}

// (out, in) weights of one dimension, f32.
Tensor weights_of(const Axis& a, const Tensor& like, Interpolation mode, bool align) {
  const Tensor at = unsqueeze(positions_of(a, like, align), 1), pixel = unsqueeze(numbers(a.in, DType::f32, like), 0);
  const double last = static_cast<double>(a.in - 1);
  if (mode == Interpolation::linear) return maximum(1 - abs(clamp(at, 0, last) - pixel), 0);
  const Tensor left = floor(at);
  Tensor weights;
  for (int k = -1; k <= 2; ++k) {
    const Tensor tap = left + k;
    const Tensor part = where(clamp(tap, 0, last) == pixel, cubic_kernel(abs(at - tap)), 0);
    weights = weights.defined() ? weights + part : part;
  }
  return weights;
}

// x at pixels (ix, iy) (N, h, w) of whole f32 numbers: (N, C, h, w). What lies outside is clamped.
Tensor pixels(const Tensor& x, const Tensor& ix, const Tensor& iy) {
  const int64_t n = x.dim(0), c = x.dim(1), height = x.dim(2), width = x.dim(3), h = ix.dim(1), w = ix.dim(2);
  const Tensor column = cast(clamp(ix, 0, static_cast<double>(width - 1)), DType::i32),
               row = cast(clamp(iy, 0, static_cast<double>(height - 1)), DType::i32);
  const Tensor flat = reshape(row * static_cast<double>(width) + column, Shape{n, 1, h * w});
  return reshape(gather(reshape(x, Shape{n, c, height * width}), 2, expand(flat, Shape{n, c, h * w})),
                 Shape{n, c, h, w});
}

Tensor unnormalized(const Tensor& v, int64_t size, const GridOptions& how) {
  const double n = static_cast<double>(size);
  return how.align_corners ? (v + 1) * ((n - 1) / 2) : ((v + 1) * n - 1) * 0.5;
}

// Coordinates of pixels, brought inside as the padding says; zeros: as they are.
Tensor padded(const Tensor& at, int64_t size, const GridOptions& how) {
  if (how.padding == GridPadding::zeros) return at;
  const double last = static_cast<double>(size - 1);
  if (how.padding == GridPadding::border) return clamp(at, 0, last);
  const double low = how.align_corners ? 0 : -0.5, span = how.align_corners ? last : static_cast<double>(size);
  if (span == 0) return zeros_like(at);
  const Tensor distance = abs(at - low), turns = floor(distance * (1 / span)),
               rest = distance - turns * span;  // how often the edges were met
  const Tensor even = 2 * floor(0.5 * turns) == turns;
  return clamp(low + where(even, rest, span - rest), 0, last);
}

// Weights of the four neighbours -1, 0, 1, 2 of a place between 0 and 1.
std::array<Tensor, 4> cubic_weights(const Tensor& fraction) {
  std::array<Tensor, 4> weights;
  for (size_t k = 0; k < 4; ++k) weights[k] = cubic_kernel(abs(fraction - (static_cast<double>(k) - 1)));
  return weights;
}

}  // namespace

Tensor interpolate(const Tensor& x, const InterpolateOptions& how, Caller caller) {
  const CallerScope scope(caller);
  if (x.rank() < 3 || x.rank() > 5)
    throw ShapeError(fmt::format(
        "[interpolate] x is {}; expected (N, C, spatial...) of one to three spatial dimensions", x.shape().str()));
  if (how.align_corners && how.mode == Interpolation::nearest)
    throw ValueError("[interpolate] align_corners is for linear and cubic");
  const std::vector<Axis> axes = axes_of(x, how);
  const Tensor in = build::as_float(x);
  Tensor y = how.mode == Interpolation::nearest ? in : build::widen(in);
  for (size_t d = 0; d < axes.size(); ++d) {
    const int at = static_cast<int>(d) + 2;
    const Axis& a = axes[d];
    if (a.in == a.out && a.whole) continue;
    if (how.mode == Interpolation::nearest) {
      y = take(y, nearest_of(a, x), at);
      continue;
    }
    const Tensor weights = cast(weights_of(a, x, how.mode, how.align_corners), y.dtype());  // (out, in)
    y = at == y.rank() - 1 ? build::plain_matmul(y, transpose(weights))
                           : transpose(build::plain_matmul(transpose(y, at, -1), transpose(weights)), at, -1);
  }
  return cast(y, in.dtype());
}

Tensor affine_grid(const Tensor& theta, const std::vector<int64_t>& size, bool align, Caller caller) {
  const CallerScope scope(caller);
  if (theta.rank() != 3 || theta.dim(1) != 2 || theta.dim(2) != 3)
    throw ShapeError(fmt::format("[affine_grid] theta is {}; expected (N, 2, 3)", theta.shape().str()));
  if (size.size() != 4 || size[0] != theta.dim(0) || size[2] < 1 || size[3] < 1 || size[2] > INT32_MAX ||
      size[3] > INT32_MAX) {
    throw ShapeError(fmt::format(
        "[affine_grid] size is ({}), theta {}; expected (N, C, H, W) of theta's N, height and width in [1, 2^31)",
        fmt::join(size, ", "), theta.shape().str()));
  }
  const Tensor in = build::as_float(theta), wide = build::widen(in);
  const int64_t h = size[2], w = size[3];
  const auto along = [&](int64_t n) {
    const double count = static_cast<double>(n);
    const Tensor at = cast(numbers(n, DType::f32, theta), wide.dtype());
    return align ? (n > 1 ? at * (2 / (count - 1)) - 1 : at) : (2 * at + (1 - count)) * (1 / count);
  };
  const Shape plane{h, w};
  const Tensor x = expand(along(w), plane), y = expand(unsqueeze(along(h), 1), plane);
  const auto row = [&](int k) {  // (N, H, W)
    const auto number = [&](int j) {
      return reshape(slice(slice(wide, 1, {.start = k, .stop = k + 1}), 2, {.start = j, .stop = j + 1}),
                     Shape{theta.dim(0), 1, 1});
    };
    return x * number(0) + y * number(1) + number(2);
  };
  return cast(concat({unsqueeze(row(0), 3), unsqueeze(row(1), 3)}, 3), in.dtype());
}

Tensor grid_sample(const Tensor& image, const Tensor& grid, const GridOptions& how, Caller caller) {
  const CallerScope scope(caller);
  build::check_device(image, grid, "grid_sample");
  if (image.rank() != 4 || grid.rank() != 4 || grid.dim(3) != 2 || grid.dim(0) != image.dim(0)) {
    throw ShapeError(fmt::format("[grid_sample] x is {}, grid is {}; expected (N, C, H, W) and (N, h, w, 2)",
                                 image.shape().str(), grid.shape().str()));
  }
  if (image.dim(2) < 1 || image.dim(3) < 1)
    throw ShapeError(fmt::format("[grid_sample] x is {}: an image without pixels", image.shape().str()));
  const Tensor in = build::as_float(image), x = build::widen(in), g = build::widen(build::as_float(grid));
  const int64_t height = x.dim(2), width = x.dim(3);
  const auto coordinate = [&](int k) { return squeeze(slice(g, 3, {.start = k, .stop = k + 1}), 3); };
  const Tensor free_x = unnormalized(coordinate(0), width, how),
               free_y = unnormalized(coordinate(1), height, how);  // (N, h, w)
  // One neighbour with its weight (undefined: 1), 0 outside.
  const auto neighbour = [&](const Tensor& ix, const Tensor& iy, const Tensor& weight) {
    const Tensor value = pixels(x, ix, iy);
    const Tensor weighted = weight.defined() ? value * unsqueeze(weight, 1) : value;
    if (how.padding != GridPadding::zeros) return weighted;
    const Tensor inside =
        ix >= 0 && ix <= static_cast<double>(width - 1) && iy >= 0 && iy <= static_cast<double>(height - 1);
    return where(unsqueeze(inside, 1), weighted, 0);
  };
  if (how.mode == Interpolation::cubic) {  // the neighbours are padded, not the place between them
    const Tensor left = floor(free_x), top = floor(free_y);
    const std::array<Tensor, 4> across = cubic_weights(free_x - left), down = cubic_weights(free_y - top);
    Tensor total;
    for (size_t k = 0; k < 16; ++k) {
      const Tensor ix = padded(left + (static_cast<double>(k % 4) - 1), width, how),
                   iy = padded(top + (static_cast<double>(k / 4) - 1), height, how);
      const Tensor tap = neighbour(ix, iy, across[k % 4] * down[k / 4]);
      total = total.defined() ? total + tap : tap;
    }
    return cast(total, in.dtype());
  }
  const Tensor at_x = padded(free_x, width, how), at_y = padded(free_y, height, how);
  if (how.mode == Interpolation::nearest) return cast(neighbour(round(at_x), round(at_y), Tensor()), in.dtype());
  const Tensor left = floor(at_x), top = floor(at_y), fx = at_x - left, fy = at_y - top;
  const Tensor above = neighbour(left, top, (1 - fx) * (1 - fy)) + neighbour(left + 1, top, fx * (1 - fy));
  return cast(above + neighbour(left, top + 1, (1 - fx) * fy) + neighbour(left + 1, top + 1, fx * fy), in.dtype());
}

Tensor local_response_norm(const Tensor& x, int64_t size, double alpha, double beta, double k, Caller caller) {
  const CallerScope scope(caller);
  if (size < 1) throw ValueError(fmt::format("[local_response_norm] size is {}; it must be at least 1", size));
  if (x.rank() < 3)
    throw ShapeError(fmt::format("[local_response_norm] x is {}; expected (N, C, spatial...)", x.shape().str()));
  const Tensor in = build::as_float(x), wide = build::widen(in);
  const int64_t channels = x.dim(1);
  Tensor total;
  const int64_t first = std::max(-(size / 2), 1 - channels), last = std::min((size - 1) / 2, channels - 1);
  for (int64_t offset = first; offset <= last; ++offset) {  // the neighbours; those outside are zeros
    std::vector<std::pair<int64_t, int64_t>> amounts(static_cast<size_t>(x.rank()), {0, 0});
    amounts[1] = {std::max<int64_t>(-offset, 0), std::max<int64_t>(offset, 0)};
    const Tensor moved =
        pad(slice(square(wide), 1,
                  {.start = std::max<int64_t>(offset, 0), .stop = channels + std::min<int64_t>(offset, 0)}),
            amounts);
    total = total.defined() ? total + moved : moved;
  }
  if (!total.defined()) return in;
  return cast(wide / pow(k + alpha / static_cast<double>(size) * total, beta), in.dtype());
}

Tensor feature_dropout(const Tensor& x, double p, bool training, Generator* generator, Caller caller) {
  const CallerScope scope(caller);
  if (!(p >= 0 && p <= 1))
    throw ValueError(fmt::format("[feature_dropout] the probability is {}; it must be between 0 and 1", p));
  if (x.rank() < 2) throw ShapeError(fmt::format("[feature_dropout] x is {}; expected (N, C, ...)", x.shape().str()));
  if (!is_float(x.dtype()))
    throw DTypeError(
        fmt::format("[feature_dropout] needs a floating tensor, not {}; cast it first", name_of(x.dtype())));
  if (!training || p == 0) return x;
  Shape shape{x.dim(0), x.dim(1)};
  for (int d = 2; d < x.rank(); ++d) shape.push_back(1);
  return where(uniform(shape, 0, 1, &x.device(), generator) >= p, x * (p < 1 ? 1 / (1 - p) : 0), 0);
}

Tensor embedding_bag(const Tensor& indices, const Tensor& weight, BagMode mode, Caller caller) {
  const CallerScope scope(caller);
  build::check_device(indices, weight, "embedding_bag");
  build::check_index_dtype(indices, "embedding_bag");
  if (indices.rank() != 2 || weight.rank() != 2) {
    throw ShapeError(fmt::format("[embedding_bag] indices are {}, weight is {}; expected (B, L) and (rows, D)",
                                 indices.shape().str(), weight.shape().str()));
  }
  build::watch_indices("embedding_bag", indices, {.size = weight.dim(0), .from_end = true});
  if (indices.dim(1) == 0) return zeros(Shape{indices.dim(0), weight.dim(1)}, weight.dtype(), &weight.device());
  const Tensor rows = take(weight, indices, 0);  // (B, L, D)
  switch (mode) {
    case BagMode::sum:
      return sum(rows, {1});
    case BagMode::mean:
      return mean(rows, {1});
    case BagMode::max:
      return max(rows, {1});
  }
  return rows;
}

}  // namespace heddle
