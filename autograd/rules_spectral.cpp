// Gradients of QR, symmetric eigenvalues and singular values.
//
// Sources: S. Walter and L. Lehmann, "Algorithmic differentiation of linear algebra functions with application in
// optimum experimental design", 2010 (QR, eigh); D. Roberts and L. Roberts, "QR and LQ decomposition matrix
// backpropagation algorithms", 2020 (more columns than rows); M. Giles, "An extended collection of matrix derivative
// results", 2008 (eigh, svd); J. Townsend, "Differentiating the singular value decomposition", 2016. Vectors of equal
// eigenvalues or singular values are arbitrary among themselves, and what a function makes of them must not depend on
// that choice: its gradient has no part along them, so 1 / 0 counts as 0.
#include "heddle/autograd/rules.h"
#include "heddle/core/functions/functions.h"
#include "heddle/core/functions/linalg/linalg_rows.h"

namespace heddle::autograd {
namespace {

using namespace linalg;

Tensor column_range(const Tensor& x, int64_t start, int64_t stop) {
  return slice(x, -1, {.start = start, .stop = stop});
}
// 1 / x, and 0 where x is 0.
Tensor reciprocal_or_zero(const Tensor& x) { return where(x == 0.0, 0.0, reciprocal(where(x == 0.0, 1.0, x))); }
Tensor as_row(const Tensor& x) { return unsqueeze(x, -2); }
Tensor as_column(const Tensor& x) { return unsqueeze(x, -1); }

// (gQ + Q copyltu(R gR^T - gQ^T Q)) R^-T, for at least as many rows as columns.
Tensor tall_gradient(const Tensor& q, const Tensor& r, const Tensor& gq, const Tensor& gr) {
  const Tensor m = matmul(r, transpose(gr)) - matmul(transpose(gq), q);
  const Tensor inner = gq + matmul(q, tril(m) + transpose(tril(m, -1)));
  return transpose(triangular(r, transpose(inner), true, false, false));
}

// More columns than rows: a = [x, y], r = [u, v]; x = q u has the square's gradient, y = q v adds y gv^T to that of q.
void qr_rule(RuleCall& call) {
  const int64_t m = call.in[0].dim(-2), n = call.in[0].dim(-1), k = m < n ? m : n;
  if (call.node.attrs.ints[0] != 0 && m > n)
    throw GradError(
        "[qr] the columns that complete q are arbitrary, so that they have no gradient; use the reduced mode");
  const Tensor q = part(call.out, 0, {m, k}), r = part(call.out, m * k, {k, n});
  const Tensor gq = part(call.g, 0, {m, k}), gr = triu(part(call.g, m * k, {k, n}));
  if (m >= n) {
    call.result[0] = tall_gradient(q, r, gq, gr);
    return;
  }
  const Tensor gv = column_range(gr, m, n), y = column_range(call.in[0], m, n);
  const Tensor gx = tall_gradient(q, column_range(r, 0, m), gq + matmul(y, transpose(gv)), column_range(gr, 0, m));
  call.result[0] = concat({gx, matmul(q, gv)}, gx.rank() - 1);
}

// V (F * (V^T gV) + diag(gw)) V^T, F_ij = 1 / (w_j - w_i), symmetric as the matrix is.
void eigh_rule(RuleCall& call) {
  const int64_t n = call.in[0].dim(-1);
  const Tensor v = part(call.out, 0, {n, n}), w = part(call.out, n * n, {n});
  const Tensor gv = part(call.g, 0, {n, n}), gw = part(call.g, n * n, {n});
  const Tensor inner = reciprocal_or_zero(as_row(w) - as_column(w)) * matmul(transpose(v), gv) + diag_embed(gw);
  const Tensor g = matmul(matmul(v, inner), transpose(v));
  call.result[0] = (g + transpose(g)) * 0.5;
}

// U (F * skew(U^T gU) S + S F * skew(V^T gV) + diag(gs)) V^T, F_ij = 1 / (s_j^2 - s_i^2), and what gU and gV have
// outside of the spans of U and V.
void svd_rule(RuleCall& call) {
  const int64_t m = call.in[0].dim(-2), n = call.in[0].dim(-1), k = m < n ? m : n;
  const Tensor u = part(call.out, 0, {m, k}), s = part(call.out, m * k, {k}), vt = part(call.out, m * k + k, {k, n});
  const Tensor gu = part(call.g, 0, {m, k}), gs = part(call.g, m * k, {k}), gvt = part(call.g, m * k + k, {k, n});
  const Tensor uu = matmul(transpose(u), gu), vv = matmul(vt, transpose(gvt));
  const Tensor f = reciprocal_or_zero((as_row(s) - as_column(s)) * (as_row(s) + as_column(s)));
  const Tensor inner =
      f * (uu - transpose(uu)) * as_row(s) + as_column(s) * (f * (vv - transpose(vv))) + diag_embed(gs);
  Tensor g = matmul(matmul(u, inner), vt);
  const Tensor inverse_of = reciprocal_or_zero(s);
  if (m > k) g = g + matmul((gu - matmul(u, uu)) * as_row(inverse_of), vt);
  if (n > k) g = g + matmul(u, (gvt - matmul(transpose(vv), vt)) * as_column(inverse_of));
  call.result[0] = g;
}

}  // namespace

void add_spectral_rules(RuleTable& table) {
  table[&ops::qr_op].rule = qr_rule;
  table[&ops::eigh_op].rule = eigh_rule;
  table[&ops::svd_op].rule = svd_rule;
}

}  // namespace heddle::autograd
