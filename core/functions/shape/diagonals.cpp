#include "heddle/core/functions/shape/diagonals.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "heddle/core/functions/build_shape.h"
#include "heddle/core/functions/math/elementwise.h"
#include "heddle/core/functions/math/reduce.h"
#include "heddle/core/functions/shape/create.h"
#include "heddle/core/functions/shape/movement.h"
#include "heddle/core/functions/shape/shape.h"

namespace heddle {

using build::check_dims;
using build::check_rank;
using build::positions;
using build::two_axes;

namespace {

Tensor zero_of(const Tensor& like, const Shape& shape) { return full(shape, 0, like.dtype(), &like.device()); }

// The order of axes that puts a and b last.
std::vector<int> last_two(int rank, int a, int b) {
  std::vector<int> order;
  for (int i = 0; i < rank; ++i) {
    if (i != a && i != b) order.push_back(i);
  }
  order.push_back(a);
  order.push_back(b);
  return order;
}

std::vector<int> inverse(const std::vector<int>& order) {
  std::vector<int> back(order.size());
  for (size_t i = 0; i < order.size(); ++i) back[static_cast<size_t>(order[i])] = static_cast<int>(i);
  return back;
}

Tensor triangle(const char* op, const Tensor& x, int64_t k, bool lower) {
  check_rank(op, x, 2);
  const Shape grid{x.dim(-2), x.dim(-1)};
  // Beyond the corners all diagonals are alike; the bound keeps k within i32.
  const auto bound = static_cast<double>(std::clamp(k, -grid[0] - 1, grid[1] + 1));
  const Tensor above = positions(grid, 1, x.device()) - positions(grid, 0, x.device());
  return where(lower ? above <= bound : above >= bound, x, zero_of(x, x.shape()));
}

}  // namespace

Tensor tril(const Tensor& x, int64_t k, Caller caller) {
  const CallerScope scope(caller);
  return triangle("tril", x, k, true);
}
Tensor triu(const Tensor& x, int64_t k, Caller caller) {
  const CallerScope scope(caller);
  return triangle("triu", x, k, false);
}

// In the flat (M N) the diagonal's elements are N + 1 apart.
Tensor diagonal(const Tensor& x, int64_t k, int axis0, int axis1, Caller caller) {
  const CallerScope scope(caller);
  check_rank("diagonal", x, 2);
  const auto [a, b] = two_axes("diagonal", x.rank(), axis0, axis1);
  const Tensor in = permute(x, last_two(x.rank(), a, b));
  const int64_t m = in.dim(-2), n = in.dim(-1), bound = std::clamp(k, -m, n);
  const int64_t length = bound >= 0 ? std::min(m, n - bound) : std::min(m + bound, n);
  const Tensor flat = flatten(in, -2, -1);
  if (length <= 0) return slice(flat, -1, {.stop = 0});
  const int64_t start = bound >= 0 ? bound : -bound * n;
  return slice(flat, -1, {.start = start, .stop = start + (length - 1) * (n + 1) + 1, .step = n + 1});
}

Tensor diag_embed(const Tensor& x, int64_t k, int axis0, int axis1, Caller caller) {
  const CallerScope scope(caller);
  check_rank("diag_embed", x, 1);
  check_dims("diag_embed", x.rank() + 1);
  const auto [a, b] = two_axes("diag_embed", x.rank() + 1, axis0, axis1);
  if (k < -(int64_t{1} << 30) || k > (int64_t{1} << 30))
    throw ValueError(fmt::format("[diag_embed] the diagonal must lie within 2^30; got {}", k));
  const int64_t shift = k < 0 ? -k : k;
  std::vector<std::pair<int64_t, int64_t>> more(static_cast<size_t>(x.rank()));
  more.back() = {0, shift};
  const Tensor padded = pad(x, more);  // row r above, or column c below, has the element (r, r + k) or (c - k, c)
  const int64_t n = padded.dim(-1);
  Shape grid = padded.shape();
  grid.push_back(n);
  const Tensor values = expand(unsqueeze(padded, k >= 0 ? -1 : -2), grid);
  const Tensor above = positions(Shape{n, n}, 1, x.device()) - positions(Shape{n, n}, 0, x.device());
  return permute(where(above == static_cast<double>(k), values, zero_of(x, grid)),
                 inverse(last_two(x.rank() + 1, a, b)));
}

Tensor diag(const Tensor& x, int64_t k, Caller caller) {
  const CallerScope scope(caller);
  if (x.rank() != 1 && x.rank() != 2)
    throw ShapeError(fmt::format("[diag] takes a vector or a matrix; got {}; diagonal() and diag_embed() take batches",
                                 x.shape().str()));
  return x.rank() == 1 ? diag_embed(x, k) : diagonal(x, k);
}
Tensor matrix_trace(TensorArg x) {
  const CallerScope scope(x.caller);
  if (x.tensor.rank() != 2)
    throw ShapeError(
        fmt::format("[matrix_trace] takes a matrix; got {}; sum(diagonal(x, 0, -2, -1), {{-1}}) takes batches",
                    x.tensor.shape().str()));
  return sum(diagonal(x.tensor));
}

}  // namespace heddle
