// Linear algebra: matrices made well conditioned as in rows_linalg.py, and what is compared of the results.
#include "heddle/core/device/context.h"
#include "heddle/core/functions/linalg/matrix.h"
#include "tests/reference/functions.h"

namespace heddle::tests {
namespace {

Tensor identity(const Tensor& a) { return eye(a.dim(-1), a.dim(-1), a.dtype(), &a.device()); }
Tensor definite(const Tensor& a) { return !is_float(a.dtype()) ? a : matmul(a, transpose(a)) + identity(a); }
// Integers stay what they are, so that the function sees and refuses them.
Tensor mixed(const Tensor& a) { return !is_float(a.dtype()) ? a : flip(a * 0.4 + identity(a) * 2.0, {-2}); }
Tensor triangle(const Tensor& a) { return !is_float(a.dtype()) ? a : a + identity(a) * 3.0; }

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
    return solve_triangular(triangle(in[0]), in[1],
                            {a.flag("upper"), a.flag("left", true), a.flag("transposed"), a.flag("unit")});
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

MatrixNorm norm_of(const Arguments& a) {
  static const std::map<std::string, MatrixNorm> names = {{"frobenius", MatrixNorm::frobenius},
                                                          {"nuclear", MatrixNorm::nuclear},
                                                          {"one", MatrixNorm::one},
                                                          {"minus_one", MatrixNorm::minus_one},
                                                          {"two", MatrixNorm::two},
                                                          {"minus_two", MatrixNorm::minus_two},
                                                          {"infinity", MatrixNorm::infinity},
                                                          {"minus_infinity", MatrixNorm::minus_infinity}};
  const auto found = names.find(a.text("norm"));
  if (found == names.end()) throw ValueError("[matrix_norm] no such norm: '" + a.text("norm") + "'");
  return found->second;
}

Tensor symmetric(const Tensor& a) { return !is_float(a.dtype()) ? a : a + transpose(a); }
Tensor composed(const Tensor& u, const Tensor& f, const Tensor& vt) { return matmul(u * unsqueeze(f, -2), vt); }

void add_spectra(Functions& t) {
  t["qr"] = [](Inputs in, const Arguments& a) {
    const QR made = qr(in[0], a.text("mode") == "complete" ? QRMode::complete : QRMode::reduced);
    return std::vector<Tensor>{made.q, made.r};
  };
  t["eigh"] = [](Inputs in, const Arguments& a) {
    const Eigh made = eigh(symmetric(in[0]), a.flag("upper"));
    return std::vector<Tensor>{made.values, composed(made.vectors, sin(made.values), transpose(made.vectors))};
  };
  t["eigvalsh"] = one([](Inputs in, const Arguments&) { return eigvalsh(symmetric(in[0])); });
  t["svd"] = [](Inputs in, const Arguments&) {
    const SVD made = svd(in[0], false);
    return std::vector<Tensor>{made.s, composed(made.u, sin(made.s), made.vh)};
  };
  t["svdvals"] = one([](Inputs in, const Arguments&) { return svdvals(in[0]); });
  t["pinv"] = one([](Inputs in, const Arguments&) { return pinv(in[0]); });
  t["matrix_rank"] =
      one([](Inputs in, const Arguments& a) { return matrix_rank(in[0], {.absolute = a.maybe_real("absolute")}); });
  t["lstsq"] = one([](Inputs in, const Arguments&) { return lstsq(in[0], in[1]); });
  t["matrix_norm"] =
      one([](Inputs in, const Arguments& a) { return matrix_norm(in[0], norm_of(a), a.flag("keepdim")); });
  t["condition_number"] = one([](Inputs in, const Arguments& a) { return condition_number(mixed(in[0]), norm_of(a)); });
  t["matrix_exp"] = one([](Inputs in, const Arguments&) { return matrix_exp(in[0]); });
}

}  // namespace

void add_linalg(Functions& t) {
  add_systems(t);
  add_spectra(t);
}

}  // namespace heddle::tests
