// Linear algebra: matrices made well conditioned as in rows_linalg.py, and what is compared of the results.
#include "core/graph/functions_linalg.h"

#include "tests/reference/functions.h"

namespace heddle::tests {
namespace {

Tensor identity(const Tensor& a) { return eye(a.dim(-1), a.dim(-1), a.dtype(), &a.device()); }
Tensor definite(const Tensor& a) { return matmul(a, transpose(a)) + identity(a); }
Tensor mixed(const Tensor& a) { return flip(a * 0.4 + identity(a) * 2.0, {-2}); }
Tensor triangle(const Tensor& a) { return a + identity(a) * 3.0; }

void add_systems(Functions& t) {
  t["cholesky"] = one([](Inputs in, const Arguments& a) { return cholesky(definite(in[0]), a.flag("upper")); });
  t["cholesky_inverse"] = one([](Inputs in, const Arguments& a) {
    const bool upper = a.flag("upper");
    return cholesky_inverse(cholesky(definite(in[0]), upper), upper);
  });
  t["cholesky_solve"] = one([](Inputs in, const Arguments& a) {
    const bool upper = a.flag("upper");
    return cholesky_solve(in[1], cholesky(definite(in[0]), upper), upper);
  });
  t["solve"] = one([](Inputs in, const Arguments& a) { return solve(mixed(in[0]), in[1], a.flag("left", true)); });
  t["solve_triangular"] = one([](Inputs in, const Arguments& a) {
    return solve_triangular(triangle(in[0]), in[1], {a.flag("upper"), a.flag("left", true), a.flag("transposed"), a.flag("unit")});
  });
  t["inverse"] = one([](Inputs in, const Arguments&) { return inverse(mixed(in[0])); });
  t["det"] = one([](Inputs in, const Arguments&) { return det(in[0]); });
  t["slogdet"] = [](Inputs in, const Arguments&) {
    const SignedLogDet made = slogdet(mixed(in[0]));
    return std::vector<Tensor>{made.sign, made.logabsdet};
  };
  t["logdet"] = one([](Inputs in, const Arguments&) { return logdet(definite(in[0])); });
  t["lu"] = [](Inputs in, const Arguments&) {
    const LUMatrices made = lu(in[0]);
    return std::vector<Tensor>{made.p, made.l, made.u};
  };
  t["lu_solve"] = one([](Inputs in, const Arguments& a) {
    return lu_solve(lu_factor(mixed(in[0])), in[1], {.left = a.flag("left", true), .transposed = a.flag("transposed")});
  });
}

}  // namespace

void add_linalg(Functions& t) { add_systems(t); }

}  // namespace heddle::tests
