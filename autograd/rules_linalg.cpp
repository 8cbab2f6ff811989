// Gradients of factorizations and systems.
//
// Sources: M. Giles, "An extended collection of matrix derivative results for forward and reverse mode algorithmic
// differentiation", 2008 (systems, inverse, determinant); I. Murray, "Differentiation of the Cholesky decomposition",
// 2016; S. Walter and L. Lehmann, "Algorithmic differentiation of linear algebra functions with application in optimum
// experimental design", 2010 (LU). Written with the rows themselves, so any order follows.
#include "heddle/autograd/rules.h"
#include "heddle/core/functions/functions.h"
#include "heddle/core/functions/linalg/linalg_rows.h"
#include "heddle/core/op/attrs.h"

namespace heddle::autograd {
namespace {

using namespace linalg;

Tensor rows(const Tensor& x, int64_t start, int64_t stop) { return slice(x, -2, {.start = start, .stop = stop}); }
Tensor columns(const Tensor& x, int64_t start, int64_t stop) { return slice(x, -1, {.start = start, .stop = stop}); }
// b t^-1 and its likes, as systems on the left.
Tensor right_solve(const Tensor& b, const Tensor& t, bool upper, bool transposed, bool unit) {
  return transpose(triangular(t, transpose(b), upper, !transposed, unit));
}

// L^-T phi(L^T g) L^-1, symmetric; phi takes the lower triangle and half of the diagonal.
void cholesky_rule(RuleCall& call) {
  const int64_t n = call.in[0].dim(-1);
  const Tensor l = cholesky_factor(call.out, n), product = matmul(transpose(l), tril(part(call.g, 0, {n, n})));
  const Tensor phi = (tril(product) + tril(product, -1)) * 0.5;
  const Tensor s = right_solve(triangular(l, phi, false, true, false), l, false, false, false);
  call.result[0] = (s + transpose(s)) * 0.5;
}

// P^T of: L^-T (tril(L^T gL, -1) + triu(gU U^T)) U^-T, for the square that L and U share. What stands below it is L2 =
// A2 U^-1, what stands beside it U2 = L^-1 A2: each takes its own gradient and adds to that of the square's factor.
void lu_rule(RuleCall& call) {
  const int64_t m = call.in[0].dim(-2), n = call.in[0].dim(-1), k = m < n ? m : n;
  const Tensor factors = lu_factors(call.out, m, n), g = part(call.g, 0, {m, n});
  const Tensor square = columns(rows(factors, 0, k), 0, k);
  const Tensor g_square = columns(rows(g, 0, k), 0, k);
  Tensor g_lower = tril(g_square, -1), g_upper = triu(g_square), beyond;
  if (m > n) {
    beyond = right_solve(rows(g, n, m), square, true, true, false);
    g_upper = g_upper - triu(matmul(transpose(rows(factors, n, m)), beyond));
  }
  if (n > m) {
    beyond = triangular(square, columns(g, m, n), false, true, true);
    g_lower = g_lower - tril(matmul(beyond, transpose(columns(factors, m, n))), -1);
  }
  const Tensor lower = tril(square, -1) + eye(k, k, square.dtype(), &square.device());
  const Tensor inner = tril(matmul(transpose(lower), g_lower), -1) + triu(matmul(g_upper, transpose(triu(square))));
  Tensor result = right_solve(triangular(square, inner, false, true, true), square, true, true, false);
  if (beyond.defined()) result = concat({result, beyond}, m > n ? result.rank() - 2 : result.rank() - 1);
  call.result[0] = unpermute_rows(result, lu_permutation(call.out, m, n));
}

// op(T) x = b: gb = op(T)^-T g, gT = -gb x^T (turned, where op turns), of the triangle that is read.
void triangular_rule(RuleCall& call) {
  const TriangularAttrs attrs(call.node.attrs);
  const bool upper = attrs.upper, transposed = attrs.transposed;
  const Tensor gb = triangular(call.in[0], call.g, upper, !transposed, attrs.unit);
  if (call.wants(1)) call.result[1] = gb;
  if (!call.wants(0)) return;
  const Tensor product = transposed ? matmul(call.out, transpose(gb)) : matmul(gb, transpose(call.out));
  call.result[0] = neg(upper ? triu(product, attrs.unit ? 1 : 0) : tril(product, attrs.unit ? -1 : 0));
}

void linear_solve_rule(RuleCall& call) {
  const bool transposed = call.node.attrs.ints[0] != 0;
  const Tensor gb = linear_solve(call.in[0], call.in[1], call.g, !transposed);
  if (call.wants(2)) call.result[2] = gb;
  if (call.wants(0))
    call.result[0] = neg(transposed ? matmul(call.out, transpose(gb)) : matmul(gb, transpose(call.out)));
}

// g det(A) A^-T. A pivot that is 0 is replaced by a rounding error of the largest: det is smooth there, and the product
// of the small determinant with the large inverse is its gradient but for that error.
void det_rule(RuleCall& call) {
  const Tensor &a = call.in[0], &pack = call.in[1];
  const int64_t n = a.dim(-1);
  if (n == 0 || a.numel() == 0) {
    call.result[0] = zeros_like(a);
    return;
  }
  const Tensor factors = lu_factors(pack, n, n), on_diagonal = diagonal(factors, 0, -2, -1);
  const Tensor largest = max(abs(on_diagonal), {-1}, true);
  const Tensor least = where(largest > 0, largest, 1.0) * (a.dtype() == DType::f64 ? 2.2e-16 : 1.2e-7);
  const Tensor safe = stop_gradient(where(on_diagonal == 0.0, expand(least, on_diagonal.shape()), on_diagonal));
  const Tensor mended = factors + diag_embed(safe - on_diagonal);
  const Shape batch = batch_of(a.shape());
  const Tensor head = reshape(mended, with_dims(batch, {n * n}));
  const Tensor safe_pack = stop_gradient(concat({head, slice(pack, -1, {.start = n * n})}, head.rank() - 1));
  const Tensor shift = stop_gradient(lu_sign(pack, n, n) * prod(safe, {-1}) - call.out);
  const Tensor scale = reshape((call.out + shift) * call.g, with_dims(batch, {1, 1}));
  const Tensor identity = expand(eye(n, n, a.dtype(), &a.device()), a.shape());
  call.result[0] = linear_solve(a, safe_pack, identity * scale, true);
}

}  // namespace

void add_linalg_rules(RuleTable& table) {
  table[&ops::cholesky_op].rule = cholesky_rule;
  table[&ops::lu_op].rule = lu_rule;
  table[&ops::solve_triangular_op].rule = triangular_rule;
  table[&ops::linear_solve_op].rule = linear_solve_rule;
  table[&ops::det_op].rule = det_rule;
}

}  // namespace heddle::autograd
