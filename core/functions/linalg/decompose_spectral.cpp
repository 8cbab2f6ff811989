// QR, symmetric eigenvalues and singular values as kernels.
//
// Householder reflections by blocks for QR (reflectors.h); for the spectra condensed forms and sweeps of rotations over
// them (sweeps.h), or of small matrices cyclic Jacobi rotations (Golub and Van Loan, "Matrix computations", 5.2
// and 8.5; Demmel and Veselic, "Jacobi's method is more accurate than QR", 1992). Where a driver ends long loops, or a
// watchdog ends long kernels, reflections and rotations are divided among launches, each of which takes the state that
// the one before left.
#include <algorithm>

#include "heddle/core/functions/build.h"
#include "heddle/core/functions/linalg/build_linalg.h"
#include "heddle/core/functions/linalg/linalg_rows.h"
#include "heddle/core/functions/linalg/matmul.h"
#include "heddle/core/functions/linalg/reflectors.h"
#include "heddle/core/functions/linalg/sweeps.h"
#include "heddle/core/functions/math/elementwise.h"
#include "heddle/core/functions/math/reduce.h"
#include "heddle/core/functions/shape/create.h"
#include "heddle/core/functions/shape/diagonals.h"
#include "heddle/core/functions/shape/index.h"
#include "heddle/core/functions/shape/movement.h"
#include "heddle/core/op/attrs.h"
#include "heddle/core/op/primitives.h"
#include "heddle/core/tiles/linalg_tiles.h"

namespace heddle::linalg {
namespace {

using build::caps_of;
using build::flattened;
using build::record;

Tensor flat(const Tensor& x) { return reshape(x, Shape{x.dim(0), x.numel() / x.dim(0)}); }
Tensor identity(const Tensor& like, int64_t m, int64_t n) {
  return expand(eye(m, n, like.dtype(), &like.device()), Shape{like.dim(0), m, n});
}

// W^T, V^T and two numbers after as many sweeps as it takes.
Tensor rotated(const Tensor& w, bool symmetric) {
  constexpr int64_t sweeps = 16;
  const int64_t count = w.dim(0), n = w.dim(1), pairs = n * (n - 1) / 2, total = pairs * sweeps;
  Tensor state = concat({flat(w), flat(identity(w, n, n)), zeros({count, 2}, w.dtype(), &w.device())}, 1);
  const int64_t each = jacobi_pairs(caps_of(w), w.dtype(), n);
  for (int64_t first = 0; first < total; first += each) {
    int64_t p = 0, rest = first % pairs;
    for (; rest >= n - 1 - p; ++p) rest -= n - 1 - p;
    state = record(rotate_op, {&state}, Attrs{{symmetric, n, std::min(each, total - first), p, p + 1 + rest}},
                   state.shape(), state.dtype());
  }
  return state;
}

// 0 when the rotations have converged, else 1; a single number has no pair.
Tensor failure(const Tensor& state, int64_t n) {
  const Tensor done = part(state, 2 * n * n + 1, {1});
  return n < 2 ? done * 0.0 : 1.0 - done;
}

struct Scaled {
  Tensor x, factor;  // of Frobenius norm 1 (or 0); (B, 1, 1)
  Tensor sound;      // (B, 1) bool: no NaN and no infinity
};

// By the largest element first: squares do not overflow then.
Scaled scaled(const Tensor& x) {
  const Tensor peak = max(abs(x), {1, 2}, true), top = where(peak > 0, peak, 1.0), smaller = x / top;
  const Tensor norm = sqrt(sum(square(smaller), {1, 2}, true)), unit = where(norm > 0, norm, 1.0);
  return {smaller / unit, top * unit, reshape(norm >= 0.0, Shape{x.dim(0), 1})};
}

Tensor order_of(const Tensor& keys, bool descending) {
  return record(ops::argsort_op, {&keys}, sort_attrs(descending, keys.dim(-1)), keys.shape(), DType::i32);
}

struct Singular {
  Tensor u, s, vt, info;  // (B, m, k), (B, k), (B, k, n), (B, 1)
};

// Columns of U that belong to a zero (or tiny) singular value are what Householder's Q puts there; to the others Q is
// equal but for signs.
Singular singular_by_rotations(const Tensor& x) {
  const int64_t n = x.dim(1);
  const Tensor state = rotated(transpose(x), false);
  const Tensor w = part(state, 0, {n, n}), sizes = sqrt(sum(square(w), {2})), order = order_of(sizes, true);
  const Tensor s = gather(sizes, 1, order);
  const Tensor directions = transpose(permute_rows(w, order) / unsqueeze(where(s > 0, s, 1.0), 2));
  std::vector<ReflectorBlock> blocks;
  const Tensor on_diagonal = diagonal(factor_by_panels(directions, blocks), 0, -2, -1);
  const Tensor u = orthogonal(blocks, n) * unsqueeze(where(on_diagonal < 0, -1.0, ones_like(on_diagonal)), 1);
  return {u, s, permute_rows(part(state, n * n, {n, n}), order), failure(state, n)};
}

Singular singular_by_sweeps(const Tensor& x) {
  const int64_t n = x.dim(1);
  const SweptSingular swept = swept_singular(x);
  const Tensor sizes = abs(swept.values), order = order_of(sizes, true);
  const Tensor signs = where(swept.values < 0, -1.0, ones_like(sizes));
  const auto sorted = [&](const Tensor& rows) { return permute_rows(slice(rows, -1, {.stop = n}), order); };
  return {transpose(sorted(swept.left)), gather(sizes, 1, order), sorted(swept.right * unsqueeze(signs, 2)),
          1.0 - swept.done};
}

Singular singular_square(const Tensor& x) {
  return condenses(caps_of(x), x.dtype(), x.dim(1), true) ? singular_by_sweeps(x) : singular_by_rotations(x);
}

Singular singular(const Tensor& a) {
  const int64_t m = a.dim(1), n = a.dim(2);
  if (m < n) {
    const Singular turned = singular(transpose(a));
    return {transpose(turned.vt), turned.s, transpose(turned.u), turned.info};
  }
  const Scaled unit = scaled(a);
  Singular made;
  if (m == n) {
    made = singular_square(unit.x);
  } else {
    std::vector<ReflectorBlock> blocks;
    made = singular_square(triu(factor_by_panels(unit.x, blocks)));
    made.u = matmul(orthogonal(blocks, n), made.u);
  }
  made.s = made.s * reshape(unit.factor, Shape{a.dim(0), 1});
  made.info = where(unit.sound, made.info, 1.0);
  return made;
}

}  // namespace

const OpDef rotate_op{.name = "rotate",
                      .kind = OpKind::body,
                      .arity = 1,
                      .rule = DTypeRule::any,
                      .doc = "Jacobi rotations of some pairs of columns"};

Tensor decompose_qr(const Node& node) {
  const Tensor a(node.inputs[0]);
  const int64_t m = a.dim(-2), n = a.dim(-1), columns = node.attrs.ints[0] != 0 ? m : std::min(m, n);
  if (node.shape.numel() == 0) return zeros(node.shape, node.dtype, node.device);
  const Tensor x = flattened(a);
  if (n == 0) return reshape(flat(identity(x, m, columns)), node.shape);
  std::vector<ReflectorBlock> blocks;
  Tensor r = triu(factor_by_panels(x, blocks));
  if (r.dim(1) < columns) r = pad(r, {{0, 0}, {0, columns - r.dim(1)}, {0, 0}});
  return reshape(concat({flat(orthogonal(blocks, columns)), flat(r)}, 1), node.shape);
}

Tensor decompose_eigh(const Node& node) {
  const Tensor a(node.inputs[0]);
  const int64_t n = a.dim(-1), count = batch_count(a.shape());
  if (count == 0 || n == 0) return zeros(node.shape, node.dtype, node.device);
  const Tensor lower = flattened(a);
  const Scaled unit = scaled(tril(lower) + transpose(tril(lower, -1)));
  if (condenses(caps_of(a), a.dtype(), n, false)) {
    const SweptSymmetric swept = swept_symmetric(unit.x);
    const Tensor order = order_of(swept.values, false), v = permute_rows(slice(swept.rows, -1, {.stop = n}), order);
    const Tensor values = gather(swept.values, 1, order) * reshape(unit.factor, Shape{count, 1});
    return reshape(concat({flat(transpose(v)), values, where(unit.sound, 1.0 - swept.done, 1.0)}, 1), node.shape);
  }
  const Tensor state = rotated(unit.x, true), v = part(state, n * n, {n, n});
  const Tensor w = sum(matmul(v, unit.x) * v, {2}), order = order_of(w, false);
  const Tensor values = gather(w, 1, order) * reshape(unit.factor, Shape{count, 1});
  return reshape(
      concat({flat(transpose(permute_rows(v, order))), values, where(unit.sound, failure(state, n), 1.0)}, 1),
      node.shape);
}

Tensor decompose_svd(const Node& node) {
  const Tensor a(node.inputs[0]);
  if (batch_count(a.shape()) == 0 || a.numel() == 0) return zeros(node.shape, node.dtype, node.device);
  const Singular made = singular(flattened(a));
  return reshape(concat({flat(made.u), made.s, flat(made.vt), made.info}, 1), node.shape);
}

}  // namespace heddle::linalg
