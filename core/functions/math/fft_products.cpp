#include "heddle/core/functions/math/fft_products.h"

#include <algorithm>
#include <bit>
#include <map>
#include <numbers>
#include <vector>

#include "heddle/core/base/of_this_thread.h"
#include "heddle/core/functions/build_shape.h"
#include "heddle/core/functions/linalg/build_matmul.h"
#include "heddle/core/functions/math/cast.h"
#include "heddle/core/functions/math/complex.h"
#include "heddle/core/functions/math/elementwise.h"
#include "heddle/core/functions/shape/create.h"
#include "heddle/core/functions/shape/movement.h"

namespace heddle::fft_products {
namespace {

using build::positions;

constexpr int64_t largest_prime =
    256;  // as a factor of its own; above that Bluestein's two transforms of a power of two cost less
constexpr int64_t step_cost =
    96;  // of one more factor, in elements of a matrix' row: what passing over memory costs beside multiplying

// ---- roots of unity
struct Roots {
  Tensor real, imaginary;
};
// exp(sign 2 pi i m / n) for integers m with 4 m < 2^31, of a floating dtype. The quarter turns are taken off in whole
// numbers; their count may be off by one near its halves, where either will do, so it is found by a multiplication:
// whole numbers divide one by one.
Roots roots(const Tensor& m, int64_t n, double sign, DType t) {
  const Tensor quarter = cast(round(cast(m, t) * (4 / static_cast<double>(n))), m.dtype());
  const Tensor rest = 4 * m - quarter * static_cast<double>(n);  // of 4 n to a turn
  const Tensor angle = cast(rest, t) * (std::numbers::pi / (2 * static_cast<double>(n)));
  const Tensor c = cos(angle), s = sin(angle), phase = bitwise_and(quarter, full_like(quarter, 3));
  const Tensor odd = phase == 1 || phase == 3, left = phase == 1 || phase == 2, below = phase == 2 || phase == 3;
  const Tensor real = where(odd, s, c), imaginary = where(odd, c, s);
  return {where(left, -real, real), where(sign > 0 ? below : !below, -imaginary, imaginary)};
}

// j k over a grid in which `row_axis` counts j and `column_axis` k.
Tensor exponents(const Shape& shape, int row_axis, int column_axis, DeviceContext& device) {
  return positions(shape, row_axis, device) * positions(shape, column_axis, device);
}

// ---- plans: n as a product of factors, cheapest first; empty where it has none
struct Known : std::map<int64_t, std::pair<int64_t, std::vector<int64_t>>> {};  // cost, factors
const std::vector<int64_t>& factors_of(int64_t n) {
  Known& known = of_this_thread<Known>();
  if (const auto at = known.find(n); at != known.end()) return at->second.second;
  std::pair<int64_t, std::vector<int64_t>> best{n <= largest_prime ? n + step_cost : INT64_MAX, {}};
  if (n <= largest_prime) best.second = {n};
  for (int64_t r = 2; r <= std::min<int64_t>(n - 1, largest_prime); ++r) {
    if (n % r != 0) continue;
    const std::vector<int64_t> rest = factors_of(n / r);
    if (rest.empty()) continue;
    const int64_t cost = r + step_cost + known[n / r].first;
    if (cost >= best.first) continue;
    best = {cost, {r}};
    best.second.insert(best.second.end(), rest.begin(), rest.end());
  }
  return (known[n] = std::move(best)).second;
}

// (2 keep, n): the matrix' real part above its imaginary part.
Tensor stacked_matrix(const Tensor& like, int64_t n, int64_t keep, const Kind& kind) {
  const Shape grid{keep, n};
  const Roots w = roots(exponents(grid, 0, 1, like.device()), n, kind.sign, like.dtype());
  const Tensor matrix = concat({w.real, w.imaginary}, 0);
  return kind.scale == 1 ? matrix : matrix * kind.scale;
}

// (n [2], keep [2]): what a row of reals or pairs is multiplied by.
Tensor row_matrix(const Tensor& like, int64_t n, const Problem& p) {
  const int64_t in = p.real_in ? 1 : 2, out = p.real_out ? 1 : 2;
  const Shape grid{n, in, p.keep, out};
  const Roots w = roots(exponents(grid, 0, 2, like.device()), n, p.kind.sign, like.dtype());
  const Tensor from = positions(grid, 1, like.device()), to = positions(grid, 3, like.device());
  const Tensor entry = where(from == to, w.real, where(to == 1, w.imaginary, -w.imaginary));
  return reshape(p.kind.scale == 1 ? entry : entry * p.kind.scale, Shape{n * in, p.keep * out});
}

// One factor: (B, r, S) times [C; S], then (B, r, s, T, 2) multiplied by the roots of n. x is real or holds pairs in
// its last axis.
Tensor first_step(const Tensor& x, int64_t r, int64_t s, int64_t tail, const Kind& kind, bool real_in) {
  const int64_t batch = x.dim(0), n = r * s;
  const Tensor y = build::plain_matmul(stacked_matrix(x, r, r, kind),
                                       reshape(x, Shape{batch, r, x.numel() / std::max<int64_t>(1, batch * r)}));
  const Shape grid{1, r, s, 1, 1};
  const Roots w = roots(exponents(grid, 1, 2, x.device()), n, kind.sign, x.dtype());
  const auto half = [&](int k) { return slice(y, 1, {.start = k * r, .stop = (k + 1) * r}); };
  if (real_in) {  // (a + i b) w
    const Shape parts{batch, r, s, tail, 1};
    const Tensor a = reshape(half(0), parts), b = reshape(half(1), parts);
    return concat({a * w.real - b * w.imaginary, a * w.imaginary + b * w.real}, 4);
  }
  const Shape parts{batch, r, s, tail, 2};
  const Tensor a = reshape(half(0), parts), b = reshape(half(1), parts);
  return (a + build::times_i(b)) * w.real + (build::times_i(a) - b) * w.imaginary;
}

Tensor single(const Tensor& x, const Problem& p) {
  const int64_t batch = x.dim(0), n = x.dim(1), tail = x.dim(2);
  Shape shape{batch, p.keep, tail};
  if (!p.real_out) shape.push_back(2);
  if (tail == 1)
    return reshape(build::plain_matmul(reshape(x, Shape{batch, n * (p.real_in ? 1 : 2)}), row_matrix(x, n, p)), shape);
  const Tensor y = build::plain_matmul(stacked_matrix(x, n, p.keep, p.kind),
                                       reshape(x, Shape{batch, n, tail * (p.real_in ? 1 : 2)}));
  const auto half = [&](int k) { return slice(y, 1, {.start = k * p.keep, .stop = (k + 1) * p.keep}); };
  const Shape parts = p.real_in ? Shape{batch, p.keep, tail, 1} : Shape{batch, p.keep, tail, 2};
  const Tensor a = reshape(half(0), parts), b = reshape(half(1), parts);
  if (p.real_in) return p.real_out ? reshape(a, shape) : concat({a, b}, 3);
  const Tensor z = a + build::times_i(b);
  return p.real_out ? reshape(slice(z, 3, {.start = 0, .stop = 1}), shape) : z;
}

Tensor factored(const Tensor& x, const Problem& p, int64_t r) {
  const int64_t batch = x.dim(0), n = x.dim(1), tail = x.dim(2), s = n / r;
  const Tensor stepped = first_step(x, r, s, tail, {p.kind.sign, 1}, p.real_in);
  Problem rest{p.kind, (p.keep - 1) / r + 1, false, p.real_out};
  const Tensor y = by_products(reshape(stepped, Shape{batch * r, s, tail, 2}),
                               rest);  // (B r, keep', T, 2): element k' r + k of the whole
  const int64_t pair = p.real_out ? 1 : 2;
  const Tensor whole = reshape(permute(reshape(y, Shape{batch, r, rest.keep, tail * pair}), {0, 2, 1, 3}),
                               Shape{batch, rest.keep * r, tail * pair});
  Shape shape{batch, p.keep, tail};
  if (!p.real_out) shape.push_back(2);
  return reshape(slice(whole, 1, {.start = 0, .stop = p.keep}), shape);
}

// exp(sign pi i j^2 / n) for j < count, as pairs (1, count, 1, 2). j^2 counts modulo 2 n.
Tensor chirp(const Tensor& like, int64_t n, int64_t count, double sign) {
  const Tensor j = cast(positions(Shape{1, count, 1}, 1, like.device()), DType::i64);
  const Roots w = roots(cast(mod(j * j, static_cast<double>(2 * n)), DType::i32), 2 * n, sign, like.dtype());
  return complex_pair(w.real, w.imaginary);
}

// Bluestein: j k = (j^2 + k^2 - (k - j)^2) / 2 makes the sum a convolution. L. Bluestein, "A linear filtering approach
// to the computation of discrete Fourier transform", 1970.
Tensor convolved(const Tensor& x, const Problem& p) {
  const int64_t n = x.dim(1);
  const auto m = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(2 * n - 1)));
  const Tensor pairs = p.real_in ? complex_pair(x, zeros_like(x)) : x;  // (B, n, T, 2)
  const Tensor w = chirp(x, n, n, p.kind.sign), inverse = complex_conj(w);
  const Tensor mirrored = flip(slice(inverse, 1, {.start = 1}), {1});
  const Tensor wave = concat({inverse, zeros(Shape{1, m - 2 * n + 1, 1, 2}, x.dtype(), &x.device()), mirrored}, 1);
  const Tensor signal = pad(complex_mul(pairs, w), {{0, 0}, {0, m - n}, {0, 0}, {0, 0}});
  const Problem there{{-1, 1}, m, false, false}, back{{1, p.kind.scale / static_cast<double>(m)}, p.keep, false, false};
  const Tensor y = by_products(complex_mul(by_products(signal, there), by_products(wave, there)), back);
  const Tensor z = complex_mul(y, slice(w, 1, {.start = 0, .stop = p.keep}));
  return p.real_out ? reshape(slice(z, 3, {.start = 0, .stop = 1}), Shape{z.dim(0), z.dim(1), z.dim(2)}) : z;
}

}  // namespace

Tensor by_products(const Tensor& x, const Problem& p) {
  const std::vector<int64_t>& factors = factors_of(x.dim(1));
  if (factors.empty()) return convolved(x, p);
  return factors.size() == 1 ? single(x, p) : factored(x, p, factors[0]);
}

}  // namespace heddle::fft_products
