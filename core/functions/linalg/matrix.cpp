#include "heddle/core/functions/linalg/matrix.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "heddle/core/functions/build.h"
#include "heddle/core/functions/linalg/build_linalg.h"
#include "heddle/core/functions/linalg/build_matmul.h"
#include "heddle/core/functions/linalg/info_check.h"
#include "heddle/core/functions/linalg/linalg.h"
#include "heddle/core/functions/linalg/linalg_rows.h"
#include "heddle/core/functions/math/cast.h"
#include "heddle/core/functions/math/elementwise.h"
#include "heddle/core/functions/math/reduce.h"
#include "heddle/core/functions/shape/create.h"
#include "heddle/core/functions/shape/diagonals.h"
#include "heddle/core/functions/shape/movement.h"
#include "heddle/core/graph/autocast.h"
#include "heddle/core/graph/custom.h"

namespace heddle {
namespace {

using namespace build;
using namespace linalg;

// A value that has no derivative, and says so when one is asked for.
Tensor without_gradient(const Tensor& value, const Tensor& x, const char* message) {
  auto rule = std::make_shared<CustomRule>();
  rule->name = "arbitrary columns";
  rule->arguments = 1;
  rule->vjp = [message](std::span<const Tensor>, const Tensor&) -> std::vector<Tensor> { throw GradError(message); };
  return x.requires_grad() ? make_custom(stop_gradient(value), std::span(&x, 1), std::move(rule)) : value;
}

constexpr const char* qr_message =
    "[qr] the columns that complete q are arbitrary, so that they have no gradient; use QRMode::reduced";
constexpr const char* svd_message =
    "[svd] the vectors that full_matrices adds are arbitrary, so that they have no gradient; use full_matrices = false";

// The m x m orthogonal matrix that begins with the columns of q, beyond these.
Tensor completion(const Tensor& q) {
  const int64_t m = q.dim(-2), k = q.dim(-1);
  return slice(part(qr_pack(stop_gradient(q), true), 0, {m, m}), -1, {.start = k});
}

struct SingularFactors {
  Tensor u, s, vt;  // in the dtype of computation
};

SingularFactors singular(const char* op, const Tensor& x) {
  check_matrices(op, x);
  const int64_t m = x.dim(-2), n = x.dim(-1), k = std::min(m, n);
  const Tensor pack = svd_pack(widen(x));
  watch_info(cast(part(pack, m * k + k + k * n, {}), DType::i32), op, Failure::not_converged);
  return {part(pack, 0, {m, k}), part(pack, m * k, {k}), part(pack, m * k + k, {k, n})};
}

double rounding_of(DType t) {
  return t == DType::f64 ? std::numeric_limits<double>::epsilon()
                         : static_cast<double>(std::numeric_limits<float>::epsilon());
}

// (.., 1): what singular values s (.., k) of x must exceed.
Tensor bound_of(const Tensor& s, const Tensor& x, const RankTolerance& t) {
  const double roundings = static_cast<double>(std::max(x.dim(-1), x.dim(-2))) * rounding_of(s.dtype());
  const double relative = t.relative.value_or(t.absolute ? 0.0 : roundings);
  return stop_gradient(maximum(slice(s, -1, {.stop = 1}) * relative, t.absolute.value_or(0.0)));
}

void check_tolerance(const char* op, const RankTolerance& t) {
  for (const auto& v : {t.absolute, t.relative}) {
    if (v && !(*v >= 0)) throw ValueError(fmt::format("[{}] tolerances must not be negative; got {}", op, *v));
  }
}

Tensor pseudo_inverse(const Tensor& x, const RankTolerance& tolerance);

// gA = -P^T g P^T + (I - A P) g^T P P^T + P^T P g^T (I - P A), with P = pinv(A).
std::vector<Tensor> pinv_gradient(const Tensor& a, const Tensor& g, const RankTolerance& tolerance) {
  const Tensor p = pseudo_inverse(a, tolerance), pt = transpose(p), gt = transpose(g);
  const Tensor direct = plain_matmul(plain_matmul(pt, g), pt);
  const Tensor left = plain_matmul(gt, plain_matmul(p, pt)), right = plain_matmul(plain_matmul(pt, p), gt);
  return {left - plain_matmul(a, plain_matmul(p, left)) + right - plain_matmul(plain_matmul(right, p), a) - direct};
}

Tensor pseudo_inverse(const Tensor& x, const RankTolerance& tolerance) {
  const Tensor value = [&] {
    const NoGradScope none;
    const SingularFactors f = singular("pinv", stop_gradient(x));
    if (f.s.numel() == 0) return zeros(with_dims(batch_of(x.shape()), {x.dim(-1), x.dim(-2)}), x.dtype(), &x.device());
    const Tensor large = f.s > bound_of(f.s, x, tolerance);
    return plain_matmul(transpose(f.vt),
                        unsqueeze(where(large, reciprocal(where(large, f.s, 1.0)), 0.0), -1) * transpose(f.u));
  }();
  if (!x.requires_grad() || !grad_mode()) return value;
  auto rule = std::make_shared<CustomRule>();
  rule->name = "pinv";
  rule->arguments = 1;
  rule->vjp = [tolerance](std::span<const Tensor> in, const Tensor& g) { return pinv_gradient(in[1], g, tolerance); };
  return make_custom(value, std::span(&x, 1), std::move(rule));
}

// i32 (..): the first column whose place on the diagonal of r is no larger than rounding makes it, from 1; 0: none.
Tensor rank_failure(const Tensor& r, int64_t rows) {
  const Tensor d = abs(diagonal(stop_gradient(r), 0, -2, -1)), largest = max(d, {-1}, true);
  const int64_t k = d.dim(-1);
  const Tensor small = !(d > largest * (static_cast<double>(std::max(rows, k)) * rounding_of(d.dtype())));
  const Tensor numbers =
      where(small, expand(arange(1, static_cast<double>(k + 1), 1, DType::i32, &d.device()), d.shape()),
            static_cast<double>(k + 1));
  const Tensor first = min(numbers, {-1});
  return where(first > static_cast<double>(k), 0, first);
}

}  // namespace

QR qr(const Tensor& x, QRMode mode, Caller caller) {
  const CallerScope scope(caller);
  check_matrices("qr", x);
  const int64_t m = x.dim(-2), n = x.dim(-1), k = std::min(m, n);
  const Tensor wide = widen(x), pack = qr_pack(wide, false);
  const Tensor q = part(pack, 0, {m, k}), r = part(pack, m * k, {k, n});
  if (mode == QRMode::r) return {{}, cast(r, x.dtype())};
  if (mode == QRMode::reduced || m <= n) return {cast(q, x.dtype()), cast(r, x.dtype())};
  const Tensor whole = qr_pack(stop_gradient(wide), true);
  const Tensor beyond = without_gradient(slice(part(whole, 0, {m, m}), -1, {.start = k}), wide, qr_message);
  std::vector<std::pair<int64_t, int64_t>> below(static_cast<size_t>(r.rank()));
  below[below.size() - 2] = {0, m - k};
  return {cast(concat({q, beyond}, q.rank() - 1), x.dtype()), cast(pad(r, below), x.dtype())};
}

Eigh eigh(const Tensor& x, bool upper, Caller caller) {
  const CallerScope scope(caller);
  check_square("eigh", x);
  const int64_t n = x.dim(-1);
  const Tensor wide = widen(x), pack = eigh_pack(upper ? transpose(wide) : wide);
  watch_info(cast(part(pack, n * n + n, {}), DType::i32), "eigh", Failure::not_converged);
  return {cast(part(pack, n * n, {n}), x.dtype()), cast(part(pack, 0, {n, n}), x.dtype())};
}

Tensor eigvalsh(const Tensor& x, bool upper, Caller caller) {
  const CallerScope scope(caller);
  check_square("eigvalsh", x);
  return eigh(x, upper).values;
}

SVD svd(const Tensor& x, bool full_matrices, Caller caller) {
  const CallerScope scope(caller);
  const SingularFactors f = singular("svd", x);
  const int64_t m = x.dim(-2), n = x.dim(-1);
  SVD made{cast(f.u, x.dtype()), cast(f.s, x.dtype()), cast(f.vt, x.dtype())};
  const Tensor wide = widen(x);
  if (full_matrices && m > n)
    made.u = concat({made.u, cast(without_gradient(completion(f.u), wide, svd_message), x.dtype())}, x.rank() - 1);
  if (full_matrices && n > m)
    made.vh =
        concat({made.vh, cast(transpose(without_gradient(completion(transpose(f.vt)), wide, svd_message)), x.dtype())},
               x.rank() - 2);
  return made;
}

Tensor svdvals(const Tensor& x, Caller caller) {
  const CallerScope scope(caller);
  return cast(singular("svdvals", x).s, x.dtype());
}

Tensor pinv(const Tensor& x, RankTolerance tolerance, Caller caller) {
  const CallerScope scope(caller);
  check_matrices("pinv", x);
  check_tolerance("pinv", tolerance);
  return cast(pseudo_inverse(widen(x), tolerance), x.dtype());
}

Tensor matrix_rank(const Tensor& x, RankTolerance tolerance, Caller caller) {
  const CallerScope scope(caller);
  check_tolerance("matrix_rank", tolerance);
  const Tensor s = singular("matrix_rank", stop_gradient(as_float(x))).s;
  if (s.dim(-1) == 0) return zeros(batch_of(x.shape()), DType::i64, &x.device());
  return sum(cast(s > bound_of(s, x, tolerance), DType::i64), {-1});
}

Tensor lstsq(const Tensor& x, const Tensor& b, Caller caller) {
  const CallerScope scope(caller);
  check_matrices("lstsq", x);
  check_same("lstsq", x, b);
  check_matrices("lstsq", b);
  const int64_t m = x.dim(-2), n = x.dim(-1);
  if (b.dim(-2) != m)
    throw ShapeError(
        fmt::format("[lstsq] the matrix and the right side have one number of rows; got {} and {}; a vector is a "
                    "matrix of one column",
                    x.shape().str(), b.shape().str()));
  const Shape batch = broadcast_shapes(batch_of(x.shape()), batch_of(b.shape()), "lstsq");
  if (m == 0 || n == 0)
    return cast(plain_matmul(transpose(with_batch(widen(x), batch)), with_batch(widen(b), batch)), b.dtype());  // zeros
  const Tensor wide = m >= n ? widen(x) : transpose(widen(x));
  const QR f = qr(wide);
  watch_info(rank_failure(f.r, std::max(m, n)), "lstsq", Failure::rank);
  const Tensor q = with_batch(f.q, batch), r = with_batch(f.r, batch), right = with_batch(widen(b), batch);
  if (m >= n) return cast(triangular(r, plain_matmul(transpose(q), right), true, false, false), b.dtype());
  return cast(plain_matmul(q, triangular(r, right, true, true, false)), b.dtype());
}

Tensor matrix_norm(const Tensor& x, MatrixNorm norm, bool keepdim, Caller caller) {
  const CallerScope scope(caller);
  check_matrices("matrix_norm", x);
  const bool extreme = norm != MatrixNorm::frobenius && norm != MatrixNorm::nuclear;
  if (extreme && x.dim(-1) * x.dim(-2) == 0)
    throw ShapeError(fmt::format(
        "[matrix_norm] the largest or smallest of nothing; got {}; Frobenius and nuclear norms of empty matrices are 0",
        x.shape().str()));
  const Tensor wide = widen(x);
  const bool by_columns = norm == MatrixNorm::one || norm == MatrixNorm::minus_one;
  const bool smallest =
      norm == MatrixNorm::minus_one || norm == MatrixNorm::minus_two || norm == MatrixNorm::minus_infinity;
  Tensor made;
  if (norm == MatrixNorm::frobenius) {
    const Tensor squares = sum(square(wide), {-2, -1});
    made = where(squares > 0, sqrt(where(squares > 0, squares, 1.0)), squares);  // NaN stays; the gradient at 0 is 0
  } else if (norm == MatrixNorm::nuclear) {
    made = sum(singular("matrix_norm", wide).s, {-1});
  } else {
    const Tensor sizes = norm == MatrixNorm::two || norm == MatrixNorm::minus_two
                             ? singular("matrix_norm", wide).s
                             : sum(abs(wide), {by_columns ? -2 : -1});
    made = smallest ? min(sizes, {-1}) : max(sizes, {-1});
  }
  return cast(keepdim ? reshape(made, with_dims(batch_of(x.shape()), {1, 1})) : made, x.dtype());
}

Tensor condition_number(const Tensor& x, MatrixNorm norm, Caller caller) {
  const CallerScope scope(caller);
  if (norm == MatrixNorm::two || norm == MatrixNorm::minus_two) {
    check_matrices("condition_number", x);
    if (x.dim(-1) * x.dim(-2) == 0)
      throw ShapeError(fmt::format("[condition_number] an empty matrix has no condition; got {}", x.shape().str()));
    const Tensor s = singular("condition_number", x).s;
    const Tensor most = slice(s, -1, {.stop = 1}), least = slice(s, -1, {.start = s.dim(-1) - 1});
    return cast(squeeze(norm == MatrixNorm::two ? most / least : least / most, {-1}), x.dtype());
  }
  check_square("condition_number", x);
  const SolveInfo made = inverse_ex(widen(x));
  const Tensor value = matrix_norm(widen(x), norm) * matrix_norm(made.result, norm);
  return cast(where(made.info > 0, std::numeric_limits<double>::infinity(), value), x.dtype());
}

Tensor matrix_exp(const Tensor& x, Caller caller) {
  const CallerScope scope(caller);
  check_square("matrix_exp", x);
  if (x.numel() == 0) return x;
  constexpr int squarings = 16;
  const Tensor a = widen(x);
  const int64_t n = a.dim(-1);
  // s: how often to halve until the norm is at most 1.
  const Tensor norm = stop_gradient(max(sum(abs(a), {-2}, true), {-1}, true));
  const Tensor wanted = ceil(log2(maximum(norm, 1.0)));
  const Tensor s = clamp(wanted, 0, squarings);
  const Tensor scaled = a * exp2(neg(s)), identity = broadcast(eye(n, n, a.dtype(), &a.device()), a.shape());
  // sum of x^i / i! in groups of three powers.
  const int degree = a.dtype() == DType::f64 ? 18 : 12;
  const Tensor second = plain_matmul(scaled, scaled), third = plain_matmul(second, scaled);
  const auto factor = [](int i) { return 1 / std::tgamma(i + 1.0); };
  Tensor sum_of = identity * factor(degree);
  for (int i = degree - 3; i >= 0; i -= 3) {
    sum_of = plain_matmul(third, sum_of) + identity * factor(i) + scaled * factor(i + 1) + second * factor(i + 2);
  }
  // Matrices that need no further squaring are squared as zeros, so that nothing overflows, and keep their value.
  for (int i = 0; i < squarings; ++i) {
    const Tensor more = s > static_cast<double>(i), base = where(more, sum_of, 0.0);
    sum_of = where(more, plain_matmul(base, base), sum_of);
  }
  return cast(where(wanted > squarings || isnan(norm), std::numeric_limits<double>::quiet_NaN(), sum_of), x.dtype());
}

}  // namespace heddle
