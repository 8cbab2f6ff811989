// Triangular systems, Cholesky and LU factors, and what is solved with them.
#include "heddle/core/functions/linalg/linalg.h"

#include <limits>

#include "heddle/core/functions/build.h"
#include "heddle/core/functions/linalg/build_linalg.h"
#include "heddle/core/functions/linalg/info_check.h"
#include "heddle/core/functions/linalg/linalg_rows.h"
#include "heddle/core/functions/math/cast.h"
#include "heddle/core/functions/math/elementwise.h"
#include "heddle/core/functions/math/reduce.h"
#include "heddle/core/functions/shape/create.h"
#include "heddle/core/functions/shape/diagonals.h"
#include "heddle/core/functions/shape/index.h"
#include "heddle/core/functions/shape/movement.h"

namespace heddle {
namespace {

using namespace build;
using namespace linalg;

Tensor turned(const Tensor& x, bool turn) { return turn ? transpose(x) : x; }

// Result (.., n, k) of a system whose right side has the batch axes of both operands. `f` sees both in a dtype that
// kernels compute in.
template <class F>
Tensor with_operands(const char* op, const Tensor& a, const Tensor& b, F&& f) {
  const Shape batch = broadcast_shapes(batch_of(a.shape()), batch_of(b.shape()), op);
  return cast(f(with_batch(widen(a), batch), with_batch(widen(b), batch)), b.dtype());
}

void check_system(const char* op, const Tensor& a, const Tensor& b, bool left) {
  check_square(op, a);
  check_same(op, a, b);
  check_matrices(op, b);
  const int64_t n = a.dim(-1), given = b.dim(left ? -2 : -1);
  if (n != given) {
    throw ShapeError(fmt::format("[{}] the matrix and the right side have one size; got {} and {}, whose {} are {}{}",
                                 op, a.shape().str(), b.shape().str(), left ? "rows" : "columns", given,
                                 b.dim(left ? -1 : -2) == n ? left ? "; transpose it, or ask for left = false"
                                                                   : "; transpose it, or ask for left = true"
                                                            : ""));
  }
}

struct Solution {
  Tensor x, info;
};

// The factors have no derivative of their own: the row's rule knows that of the matrix.
Tensor constant_factors(const Tensor& a) {
  const NoGradScope none;
  return lu_pack(stop_gradient(a));
}

// x a = b is a^T x^T = b^T.
Solution solved(const char* op, const Tensor& a, const Tensor& right, bool left) {
  check_square(op, a);
  check_same(op, a, right);
  const bool vector =
      left && (right.rank() == 1 || (right.rank() == a.rank() - 1 && right.shape() == a.shape().without(a.rank() - 1)));
  const Tensor b = vector ? unsqueeze(right, -1) : right;
  check_system(op, a, b, left);
  const int64_t n = a.dim(-1);
  const Tensor wide = widen(a), factors = constant_factors(wide);
  const Shape batch = broadcast_shapes(batch_of(a.shape()), batch_of(b.shape()), op);
  const Tensor packs = broadcast(factors, with_dims(batch, {factors.dim(-1)}));
  const Tensor x = cast(
      turned(linear_solve(with_batch(wide, batch), packs, with_batch(turned(widen(b), !left), batch), !left), !left),
      right.dtype());
  return {vector ? squeeze(x, {-1}) : x, lu_info(factors, n, n)};
}

Solution inverted(const char* op, const Tensor& x) {
  check_square(op, x);
  const int64_t n = x.dim(-1);
  const Tensor wide = widen(x), factors = constant_factors(wide);
  const Tensor identity = broadcast(eye(n, n, wide.dtype(), &x.device()), x.shape());
  return {cast(linear_solve(wide, factors, identity, false), x.dtype()), lu_info(factors, n, n)};
}

CholeskyInfo factored(const char* op, const Tensor& x, bool upper) {
  check_square(op, x);
  const int64_t n = x.dim(-1);
  const Tensor pack = cholesky_pack(turned(widen(x), upper));
  return {cast(turned(cholesky_factor(pack, n), upper), x.dtype()), cholesky_info(pack, n)};
}

}  // namespace

Tensor solve_triangular(const Tensor& t, const Tensor& b, TriangularOptions options, Caller caller) {
  const CallerScope scope(caller);
  check_system("solve_triangular", t, b, options.left);
  return with_operands("solve_triangular", t, b, [&](const Tensor& a, const Tensor& right) {
    const bool transposed = options.transposed == options.left;
    return turned(triangular(a, turned(right, !options.left), options.upper, transposed, options.unit), !options.left);
  });
}

Tensor cholesky(const Tensor& x, bool upper, Caller caller) {
  const CallerScope scope(caller);
  const CholeskyInfo made = factored("cholesky", x, upper);
  watch_info(made.info, "cholesky", Failure::not_positive_definite);
  return made.factor;
}

CholeskyInfo cholesky_ex(const Tensor& x, bool upper, Caller caller) {
  const CallerScope scope(caller);
  return factored("cholesky_ex", x, upper);
}

Tensor cholesky_solve(const Tensor& b, const Tensor& factor, bool upper, Caller caller) {
  const CallerScope scope(caller);
  check_system("cholesky_solve", factor, b, true);
  return with_operands("cholesky_solve", factor, b, [&](const Tensor& f, const Tensor& right) {
    return triangular(f, triangular(f, right, upper, upper, false), upper, !upper, false);
  });
}

Tensor cholesky_inverse(const Tensor& factor, bool upper, Caller caller) {
  const CallerScope scope(caller);
  check_square("cholesky_inverse", factor);
  return cholesky_solve(eye(factor.dim(-1), factor.dim(-1), factor.dtype(), &factor.device()), factor, upper);
}

LUFactors lu_factor(const Tensor& x, Caller caller) {
  const CallerScope scope(caller);
  check_matrices("lu_factor", x);
  const int64_t m = x.dim(-2), n = x.dim(-1);
  const Tensor pack = lu_pack(widen(x));
  return {cast(lu_factors(pack, m, n), x.dtype()), lu_permutation(pack, m, n), lu_info(pack, m, n)};
}

LUMatrices lu(const Tensor& x, Caller caller) {
  const CallerScope scope(caller);
  check_matrices("lu", x);
  const int64_t m = x.dim(-2), n = x.dim(-1), k = m < n ? m : n;
  const LUFactors made = lu_factor(x);
  const Tensor left = slice(made.factors, -1, {.stop = k}), right = slice(made.factors, -2, {.stop = k});
  const Tensor rows = m == 0 ? zeros(with_dims(batch_of(x.shape()), {0, 0}), x.dtype(), &x.device())
                             : one_hot(made.permutation, m, x.dtype());
  return {transpose(rows), tril(left, -1) + eye(m, k, x.dtype(), &x.device()), triu(right)};
}

Tensor lu_solve(const LUFactors& factors, const Tensor& b, LUSolveOptions options, Caller caller) {
  const CallerScope scope(caller);
  check_system("lu_solve", factors.factors, b, options.left);
  if (factors.permutation.shape() != factors.factors.shape().without(factors.factors.rank() - 1) ||
      is_float(factors.permutation.dtype())) {
    throw ShapeError(
        fmt::format("[lu_solve] the permutation holds a row's number for each row of the factors; got {} for {}; take "
                    "both from lu_factor()",
                    show(factors.permutation), show(factors.factors)));
  }
  return with_operands("lu_solve", factors.factors, b, [&](const Tensor& f, const Tensor& right) {
    const Tensor order = broadcast(factors.permutation, f.shape().without(f.rank() - 1)),
                 from = turned(right, !options.left);
    if (options.transposed == options.left)
      return turned(unpermute_rows(triangular(f, triangular(f, from, true, true, false), false, true, true), order),
                    !options.left);
    return turned(triangular(f, triangular(f, permute_rows(from, order), false, false, true), true, false, false),
                  !options.left);
  });
}

Tensor solve(const Tensor& a, const Tensor& b, bool left, Caller caller) {
  const CallerScope scope(caller);
  const Solution made = solved("solve", a, b, left);
  watch_info(made.info, "solve", Failure::singular);
  return made.x;
}

SolveInfo solve_ex(const Tensor& a, const Tensor& b, bool left, Caller caller) {
  const CallerScope scope(caller);
  const Solution made = solved("solve_ex", a, b, left);
  return {made.x, made.info};
}

Tensor inverse(const Tensor& x, Caller caller) {
  const CallerScope scope(caller);
  const Solution made = inverted("inverse", x);
  watch_info(made.info, "inverse", Failure::singular);
  return made.x;
}

SolveInfo inverse_ex(const Tensor& x, Caller caller) {
  const CallerScope scope(caller);
  const Solution made = inverted("inverse_ex", x);
  return {made.x, made.info};
}

Tensor det(const Tensor& x, Caller caller) {
  const CallerScope scope(caller);
  check_square("det", x);
  const Tensor wide = widen(x);
  return cast(determinant(wide, constant_factors(wide)), x.dtype());
}

// The sign is constant wherever there is a gradient.
SignedLogDet slogdet(const Tensor& x, Caller caller) {
  const CallerScope scope(caller);
  check_square("slogdet", x);
  const int64_t n = x.dim(-1);
  const Tensor pack = lu_pack(widen(x));
  const Tensor diagonal_of_u = diagonal(lu_factors(pack, n, n), 0, -2, -1);
  const Tensor sign_of = stop_gradient(lu_sign(pack, n, n) * prod(sign(diagonal_of_u), {-1}));
  return {cast(sign_of, x.dtype()), cast(sum(log(abs(diagonal_of_u)), {-1}), x.dtype())};
}

Tensor logdet(const Tensor& x, Caller caller) {
  const CallerScope scope(caller);
  check_square("logdet", x);
  const SignedLogDet parts = slogdet(x);
  return where(parts.sign < 0, std::numeric_limits<double>::quiet_NaN(), parts.logabsdet);
}

}  // namespace heddle
