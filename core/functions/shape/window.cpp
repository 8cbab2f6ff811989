// Images and windows: compositions of movement, take() and index_add().
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "heddle/core/functions/build_shape.h"
#include "heddle/core/functions/math/elementwise.h"
#include "heddle/core/functions/shape/create.h"
#include "heddle/core/functions/shape/index.h"
#include "heddle/core/functions/shape/movement.h"
#include "heddle/core/functions/shape/shape.h"

namespace heddle {

using build::axis_of;
using build::check_dims;
using build::check_rank;
using build::positions;
using build::product;
using build::times;

namespace {

std::pair<int64_t, int64_t> two(const char* op, const char* what, const std::vector<int64_t>& list, int64_t least) {
  if (list.size() != 1 && list.size() != 2)
    throw ValueError(fmt::format("[{}] {} has one or two entries; got ({})", op, what, fmt::join(list, ", ")));
  for (int64_t n : list) {
    if (n < least || n > INT32_MAX)
      throw ValueError(fmt::format("[{}] {} must be in [{}, 2^31); got ({})", op, what, least, fmt::join(list, ", ")));
  }
  return {list.front(), list.back()};
}

// Patches along one axis: window q has the elements q stride + k dilation of the padded axis.
struct Windows {
  int64_t size, kernel, dilation, padding, stride;
  int64_t padded() const { return size + 2 * padding; }
  int64_t count() const {
    return padded() < dilation * (kernel - 1) + 1 ? 0 : (padded() - dilation * (kernel - 1) - 1) / stride + 1;
  }
  Tensor places(DeviceContext& device) const {  // (kernel, count)
    const Shape grid{kernel, count()};
    return positions(grid, 0, device) * static_cast<double>(dilation) +
           positions(grid, 1, device) * static_cast<double>(stride);
  }
};
std::pair<Windows, Windows> windows(const char* op, std::pair<int64_t, int64_t> size,
                                    const std::vector<int64_t>& kernel, const UnfoldOptions& o) {
  const auto [kh, kw] = two(op, "kernel", kernel, 1);
  const auto [dh, dw] = two(op, "dilation", o.dilation, 1);
  const auto [ph, pw] = two(op, "padding", o.padding, 0);
  const auto [sh, sw] = two(op, "stride", o.stride, 1);
  const std::pair<Windows, Windows> both{{size.first, kh, dh, ph, sh}, {size.second, kw, dw, pw, sw}};
  if (both.first.count() < 1 || both.second.count() < 1) {
    throw ShapeError(
        fmt::format("[{}] no kernel of {} x {} (dilation {} x {}) fits an image of {} x {} with padding {} x {}", op,
                    kh, kw, dh, dw, size.first, size.second, ph, pw));
  }
  return both;
}

// (A, K, Q, rest...) with axis `axis`, axis + 1 = K, Q added up into one axis of w.padded() elements.
Tensor add_windows(const Tensor& x, int axis, const Windows& w) {
  const Tensor rows = moveaxis(x, {axis, axis + 1}, {0, 1});
  const int64_t picks = w.kernel * w.count(), rest = product(rows.shape(), 2, rows.rank());
  const Tensor sum = index_add(zeros(Shape{w.padded(), rest}, x.dtype(), &x.device()),
                               reshape(w.places(x.device()), Shape{picks}), reshape(rows, Shape{picks, rest}));
  Shape shape{w.padded()};
  for (int i = 2; i < rows.rank(); ++i) shape.push_back(rows.dim(i));
  return moveaxis(reshape(sum, shape), 0, axis);
}

}  // namespace

Tensor pixel_shuffle(const Tensor& x, int64_t factor, Caller caller) {
  const CallerScope scope(caller);
  check_rank("pixel_shuffle", x, 3);
  if (factor < 1 || factor > (int64_t{1} << 30))
    throw ValueError(fmt::format("[pixel_shuffle] the factor must be in [1, 2^30]; got {}", factor));
  const int64_t outer = product(x.shape(), 0, x.rank() - 3), channels = x.dim(-3) / (factor * factor), h = x.dim(-2),
                w = x.dim(-1);
  if (x.dim(-3) % (factor * factor) != 0) {
    throw ShapeError(
        fmt::format("[pixel_shuffle] the channels are a multiple of {} x {}; got {}", factor, factor, x.shape().str()));
  }
  const Tensor apart = reshape(x, Shape{outer * channels, factor, factor, h, w});
  const int rank = x.rank();
  return reshape(permute(apart, {0, 3, 1, 4, 2}),
                 x.shape().with(rank - 3, channels).with(rank - 2, times(h, factor)).with(rank - 1, times(w, factor)));
}
Tensor pixel_unshuffle(const Tensor& x, int64_t factor, Caller caller) {
  const CallerScope scope(caller);
  check_rank("pixel_unshuffle", x, 3);
  if (factor < 1) throw ValueError(fmt::format("[pixel_unshuffle] the factor must be positive; got {}", factor));
  if (x.dim(-2) % factor != 0 || x.dim(-1) % factor != 0) {
    throw ShapeError(
        fmt::format("[pixel_unshuffle] height and width are multiples of {}; got {}", factor, x.shape().str()));
  }
  const int64_t outer = product(x.shape(), 0, x.rank() - 2), h = x.dim(-2) / factor, w = x.dim(-1) / factor;
  const Tensor apart = reshape(x, Shape{outer, h, factor, w, factor});
  const int rank = x.rank();
  return reshape(permute(apart, {0, 2, 4, 1, 3}),
                 x.shape().with(rank - 3, times(x.dim(-3), times(factor, factor))).with(rank - 2, h).with(rank - 1, w));
}
Tensor channel_shuffle(const Tensor& x, int64_t groups, Caller caller) {
  const CallerScope scope(caller);
  check_rank("channel_shuffle", x, 2);
  if (groups < 1 || x.dim(1) % groups != 0)
    throw ShapeError(fmt::format("[channel_shuffle] the channels are a multiple of the groups; got {} and {} groups",
                                 x.shape().str(), groups));
  const Tensor apart = reshape(x, Shape{x.dim(0), groups, x.dim(1) / groups, product(x.shape(), 2, x.rank())});
  return reshape(permute(apart, {0, 2, 1, 3}), x.shape());
}

Tensor sliding_window(const Tensor& x, int axis, int64_t size, int64_t step, Caller caller) {
  const CallerScope scope(caller);
  const int at = axis_of("sliding_window", x, axis);
  check_dims("sliding_window", x.rank() + 1);
  if (size < 1 || step < 1)
    throw ValueError(fmt::format("[sliding_window] size and step must be positive; got {} and {}", size, step));
  if (size > x.dim(at))
    throw ShapeError(fmt::format("[sliding_window] windows of {} do not fit axis {} of {}", size, at, x.shape().str()));
  step = std::min(step, x.dim(at));  // a longer one reaches no second window
  const int64_t count = (x.dim(at) - size) / step + 1;
  if (size == step) return moveaxis(unflatten(slice(x, at, {.stop = count * size}), at, {count, size}), at + 1, -1);
  const Shape grid{count, size};
  const Tensor places = positions(grid, 0, x.device()) * static_cast<double>(step) + positions(grid, 1, x.device());
  return moveaxis(take(x, places, at), at + 1, -1);
}

Tensor unfold(const Tensor& x, std::vector<int64_t> kernel, const UnfoldOptions& options, Caller caller) {
  const CallerScope scope(caller);
  if (x.rank() != 3 && x.rank() != 4)
    throw ShapeError(fmt::format("[unfold] takes (N, C, H, W) or (C, H, W); got {}", x.shape().str()));
  if (x.rank() == 3) return squeeze(unfold(unsqueeze(x, 0), std::move(kernel), options), 0);
  const auto [rows, columns] = windows("unfold", {x.dim(2), x.dim(3)}, kernel, options);
  const Tensor padded = pad(x, {{0, 0}, {0, 0}, {rows.padding, rows.padding}, {columns.padding, columns.padding}});
  const Tensor patches =
      take(take(padded, columns.places(x.device()), 3), rows.places(x.device()), 2);  // (N, C, kh, H', kw, W')
  return reshape(
      permute(patches, {0, 1, 2, 4, 3, 5}),
      Shape{x.dim(0), times(x.dim(1), times(rows.kernel, columns.kernel)), times(rows.count(), columns.count())});
}

Tensor fold(const Tensor& x, std::vector<int64_t> size, std::vector<int64_t> kernel, const UnfoldOptions& options,
            Caller caller) {
  const CallerScope scope(caller);
  if (x.rank() != 2 && x.rank() != 3)
    throw ShapeError(fmt::format("[fold] takes (N, C kh kw, L) or (C kh kw, L); got {}", x.shape().str()));
  if (x.rank() == 2) return squeeze(fold(unsqueeze(x, 0), std::move(size), std::move(kernel), options), 0);
  const auto [rows, columns] = windows("fold", two("fold", "size", size, 1), kernel, options);
  const int64_t patch = times(rows.kernel, columns.kernel), count = times(rows.count(), columns.count());
  if (x.dim(1) % patch != 0 || x.dim(2) != count) {
    throw ShapeError(fmt::format("[fold] channels are a multiple of {} x {}, and there are {} x {} patches; got {}",
                                 rows.kernel, columns.kernel, rows.count(), columns.count(), x.shape().str()));
  }
  const Tensor apart =
      reshape(x, Shape{x.dim(0), x.dim(1) / patch, rows.kernel, columns.kernel, rows.count(), columns.count()});
  const Tensor image =
      add_windows(add_windows(permute(apart, {0, 1, 2, 4, 3, 5}), 4, columns), 2, rows);  // (N, C, H, W), padded
  return slice(slice(image, 2, {.start = rows.padding, .stop = rows.padding + rows.size}), 3,
               {.start = columns.padding, .stop = columns.padding + columns.size});
}

}  // namespace heddle
