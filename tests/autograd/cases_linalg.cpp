// Linear algebra in its forms: small, for finite differences to second order. Matrices are made so that they stay
// invertible (or definite) nearby.
#include <functional>

#include "heddle/core/functions/linalg/matrix.h"
#include "tests/autograd/cases.h"

namespace heddle::tests {
namespace {

Tensor identity(const Tensor& a) { return eye(a.dim(-1), a.dim(-1), a.dtype(), &a.device()); }
Tensor definite(const Tensor& a) { return matmul(a, transpose(a)) + identity(a); }
Tensor invertible(const Tensor& a) { return flip(a * 0.4 + identity(a) * 2.0, {-2}); }
Tensor triangle(const Tensor& a) { return a + identity(a) * 3.0; }

void add_systems(std::vector<GradientCase>& t) {
  t.push_back(one("cholesky", {2, 3, 3}, [](const Tensor& x) { return cholesky(definite(x)); }));
  t.push_back(one("cholesky upper", {4, 4}, [](const Tensor& x) { return cholesky(definite(x), true); }));
  t.push_back(one("lu square", {2, 3, 3}, [](const Tensor& x) { return lu_factor(invertible(x)).factors; }));
  t.push_back(one("lu tall", {5, 3}, [](const Tensor& x) { return lu_factor(x).factors; }));
  t.push_back(one("lu wide", {3, 5}, [](const Tensor& x) { return lu_factor(x).factors; }));
  for (int form = 0; form < 16; form += 3) {
    const TriangularOptions how{(form & 1) != 0, (form & 2) != 0, (form & 4) != 0, (form & 8) != 0};
    t.push_back(two("solve_triangular " + std::to_string(form), {3, 3}, how.left ? Shape{2, 3, 2} : Shape{2, 2, 3},
                    [how](const Tensor& a, const Tensor& b) { return solve_triangular(triangle(a), b, how); }));
  }
  t.push_back(
      two("solve", {2, 3, 3}, {3, 2}, [](const Tensor& a, const Tensor& b) { return solve(invertible(a), b); }));
  t.push_back(two("solve from the right", {3, 3}, {2, 3},
                  [](const Tensor& a, const Tensor& b) { return solve(invertible(a), b, false); }));
  t.push_back(
      two("solve for a vector", {3, 3}, {3}, [](const Tensor& a, const Tensor& b) { return solve(invertible(a), b); }));
  t.push_back(two("cholesky_solve", {3, 3}, {3, 2},
                  [](const Tensor& a, const Tensor& b) { return cholesky_solve(b, cholesky(definite(a))); }));
  t.push_back(two("lu_solve", {3, 3}, {3, 2}, [](const Tensor& a, const Tensor& b) {
    return lu_solve(lu_factor(invertible(a)), b, {.transposed = true});
  }));
  t.push_back(one("inverse", {2, 3, 3}, [](const Tensor& x) { return inverse(invertible(x)); }));
  t.push_back(one("det", {2, 3, 3}, [](const Tensor& x) { return det(x); }));
  t.push_back(one("slogdet", {3, 3}, [](const Tensor& x) { return slogdet(invertible(x)).logabsdet; }));
}

Tensor symmetric(const Tensor& a) { return a + transpose(a); }
Tensor composed(const Tensor& u, const Tensor& f, const Tensor& vt) { return matmul(u * unsqueeze(f, -2), vt); }

void add_spectra(std::vector<GradientCase>& t) {
  const auto both = [](const Tensor& x, int axis) {
    const QR f = qr(x);
    return concat({f.q, f.r}, axis);
  };
  t.push_back(one("qr square", {3, 3}, [both](const Tensor& x) { return both(invertible(x), 1); }));
  t.push_back(one("qr tall", {5, 3}, [both](const Tensor& x) { return both(x, 0); }));
  t.push_back(one("qr wide", {2, 3, 5}, [both](const Tensor& x) { return both(x, 2); }));
  t.push_back(one("eigvalsh", {2, 4, 4}, [](const Tensor& x) { return eigvalsh(symmetric(x)); }));
  t.push_back(one("eigh", {4, 4}, [](const Tensor& x) {
    const Eigh f = eigh(symmetric(x));
    return composed(f.vectors, sin(f.values), transpose(f.vectors));
  }));
  for (const Shape& shape : {Shape{3, 3}, Shape{5, 3}, Shape{3, 5}}) {
    t.push_back(one("svd " + shape.str(), shape, [](const Tensor& x) {
      const SVD f = svd(x, false);
      return composed(f.u, sin(f.s), f.vh);
    }));
  }
  t.push_back(one("svdvals", {2, 4, 3}, [](const Tensor& x) { return svdvals(x); }));
  t.push_back(one("pinv", {4, 3}, [](const Tensor& x) { return pinv(x); }));
  t.push_back(two("lstsq", {2, 5, 3}, {5, 2}, [](const Tensor& a, const Tensor& b) { return lstsq(a, b); }));
  t.push_back(two("lstsq wide", {3, 5}, {3, 2}, [](const Tensor& a, const Tensor& b) { return lstsq(a, b); }));
  t.push_back(one("matrix_exp", {3, 3}, [](const Tensor& x) { return matrix_exp(x); }));
  t.push_back(one("matrix_norm nuclear", {4, 3}, [](const Tensor& x) { return matrix_norm(x, MatrixNorm::nuclear); }));
  t.push_back(one("condition_number", {3, 3}, [](const Tensor& x) { return condition_number(invertible(x)); }));
}

}  // namespace

std::vector<GradientCase> linalg_cases() {
  std::vector<GradientCase> t;
  add_systems(t);
  add_spectra(t);
  return t;
}

}  // namespace heddle::tests
