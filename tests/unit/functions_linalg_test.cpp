// What core/functions/linalg/linalg.h refuses and in which words, and matrices that do not allow what is asked.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "heddle/autograd/autograd.h"
#include "heddle/autograd/vmap.h"
#include "heddle/core/compile/compile.h"
#include "heddle/core/functions/functions.h"
#include "heddle/core/functions/linalg/matrix.h"
#include "tests/support/reference_device.h"
#include "tests/unit/reference_tensors.h"
#include "tests/unit/refused.h"

namespace heddle {
namespace {

using test::expect_refused_as;
using test::of;
using tests::reference;

Tensor matrix(const std::vector<double>& values, const Shape& shape) {
  return Tensor::from_vector(std::vector<float>(values.begin(), values.end()), shape, &reference());
}

// The message of the error that looking at a value throws.
std::string observed(const Tensor& x) {
  try {
    x.to_doubles();
  } catch (const LinAlgError& e) {
    return fmt::format("{} {} {}", e.batch(), e.info(),
                       std::string(e.what()).substr(0, std::string(e.what()).rfind(" (")));
  }
  return "";
}

TEST(LinalgFunctions, RefuseBadShapes) {
  expect_refused_as<ShapeError>({
      {[] { cholesky(of({3})); }, "[cholesky] takes matrices (.., m, n); got (3); reshape() it"},
      {[] {
         cholesky(of({2, 3}));
       },
       "[cholesky] takes square matrices (.., n, n); got (2, 3)"},
      {[] {
         cholesky_ex(of({2, 3}));
       },
       "[cholesky_ex] takes square matrices"},
      {[] {
         inverse(of({4, 2, 3}));
       },
       "[inverse] takes square matrices (.., n, n); got (4, 2, 3); pinv() and lstsq() take others"},
      {[] {
         det(of({2, 3}));
       },
       "[det] takes square matrices"},
      {[] {
         slogdet(of({2, 3}));
       },
       "[slogdet] takes square matrices"},
      {[] { logdet(of({})); }, "[logdet] takes matrices"},
      {[] { lu_factor(of({3})); }, "[lu_factor] takes matrices (.., m, n); got (3); reshape() it"},
      {[] { lu(of({3})); }, "[lu] takes matrices"},
      {[] {
         solve(of({3, 3}), of({2, 4}));
       },
       "[solve] the matrix and the right side have one size; got (3, 3) and (2, 4), whose rows are 2"},
      {[] {
         solve(of({3, 3}), of({2, 3}));
       },
       "[solve] the matrix and the right side have one size; got (3, 3) and (2, 3), whose rows are 2; transpose it, or "
       "ask for left = false"},
      {[] {
         solve(of({3, 3}), of({3, 2}), false);
       },
       "[solve] the matrix and the right side have one size; got (3, 3) and (3, 2), whose columns are 2; transpose it, "
       "or ask for left = true"},
      {[] {
         solve(of({2, 3, 3}), of({4, 3, 2}));
       },
       "[solve]"},
      {[] {
         solve_triangular(of({3, 2}), of({3, 2}));
       },
       "[solve_triangular] takes square matrices"},
      {[] {
         solve_triangular(of({3, 3}), of({3}));
       },
       "[solve_triangular] takes matrices (.., m, n); got (3); reshape() it"},
      {[] {
         cholesky_solve(of({2, 2}), of({3, 3}));
       },
       "[cholesky_solve] the matrix and the right side have one size; got (3, 3) and (2, 2), whose rows are 2"},
      {[] {
         lu_solve({of({3, 3}), of({2}, DType::i32), {}}, of({3, 1}));
       },
       "[lu_solve] the permutation holds a row's number for each row of the factors; got (2) i32 for (3, 3) f32; take "
       "both from lu_factor()"},
  });
}

TEST(LinalgFunctions, RefuseBadSpectra) {
  expect_refused_as<ShapeError>({
      {[] { qr(of({3})); }, "[qr] takes matrices (.., m, n); got (3); reshape() it"},
      {[] {
         eigh(of({2, 3}));
       },
       "[eigh] takes square matrices (.., n, n); got (2, 3)"},
      {[] {
         eigvalsh(of({2, 3}));
       },
       "[eigvalsh] takes square matrices"},
      {[] { svd(of({})); }, "[svd] takes matrices"},
      {[] { svdvals(of({2})); }, "[svdvals] takes matrices"},
      {[] { pinv(of({2})); }, "[pinv] takes matrices"},
      {[] { matrix_rank(of({2})); }, "[matrix_rank] takes matrices"},
      {[] {
         lstsq(of({3, 2}), of({3}));
       },
       "[lstsq] takes matrices"},
      {[] {
         lstsq(of({3, 2}), of({2, 2}));
       },
       "[lstsq] the matrix and the right side have one number of rows; got (3, 2) and (2, 2); a vector is a matrix of "
       "one column"},
      {[] { matrix_norm(of({3})); }, "[matrix_norm] takes matrices"},
      {[] {
         matrix_norm(of({0, 3}), MatrixNorm::two);
       },
       "[matrix_norm] the largest or smallest of nothing; got (0, 3)"},
      {[] {
         condition_number(of({2, 3}), MatrixNorm::one);
       },
       "[condition_number] takes square matrices"},
      {[] {
         condition_number(of({0, 3}));
       },
       "[condition_number] an empty matrix has no condition; got (0, 3)"},
      {[] {
         matrix_exp(of({2, 3}));
       },
       "[matrix_exp] takes square matrices"},
      {[] {
         matrix_power(of({2, 3}), -1);
       },
       "[matrix_power]"},
  });
  expect_refused_as<DTypeError>({
      {[] {
         eigh(of({2, 2}, DType::i32));
       },
       "[eigh] takes floating matrices; got (2, 2) i32; cast it"},
      {[] {
         lstsq(of({2, 2}), of({2, 2}, DType::f16));
       },
       "[lstsq] both operands have one dtype; got (2, 2) f32 and (2, 2) f16; cast one"},
  });
  expect_refused_as<ValueError>({{[] {
                                    pinv(of({2, 2}), {.relative = -1.0});
                                  },
                                  "[pinv] tolerances must not be negative; got -1"}});
}

// Of the columns that are arbitrary no gradient is made up.
TEST(LinalgFunctions, ArbitraryColumnsHaveNoGradient) {
  Tensor x = matrix({1, 2, 3, 4, 5, 7}, {3, 2});
  x.set_requires_grad();
  EXPECT_THROW(backward(sum(qr(x, QRMode::complete).q)), GradError);
  EXPECT_THROW(backward(sum(svd(x).u)), GradError);
  backward(sum(qr(x, QRMode::complete).r) + sum(svd(x).s) + sum(svd(x).vh));
  EXPECT_TRUE(std::isfinite(x.grad().to_doubles()[0]));
  const std::vector<double> u = svd(x.detach()).u.to_doubles();
  for (size_t i = 0; i < 3; ++i) {
    for (size_t j = 0; j < 3; ++j)
      EXPECT_NEAR(u[i * 3] * u[j * 3] + u[i * 3 + 1] * u[j * 3 + 1] + u[i * 3 + 2] * u[j * 3 + 2], i == j, 1e-6);
  }
}

// Equal eigenvalues: the gradient of what does not depend on the choice of vectors is finite.
TEST(LinalgFunctions, EqualValues) {
  Tensor x = eye(3, 3, DType::f32, &reference());
  x.set_requires_grad();
  const Eigh f = eigh(x);
  backward(sum(f.values) + sum(matmul(f.vectors * unsqueeze(exp(f.values), -2), transpose(f.vectors))) +
           sum(svdvals(x)));
  for (const double g : x.grad().to_doubles()) EXPECT_TRUE(std::isfinite(g));
  EXPECT_EQ(matrix_rank(matrix({1, 2, 2, 4}, {2, 2})).item(), 1);
  EXPECT_EQ(matrix_rank(zeros({2, 0, 3}, DType::f32, &reference())).to_vector<int>(), (std::vector<int>{0, 0}));
  const std::vector<double> p = pinv(matrix({1, 2, 2, 4}, {2, 2})).to_doubles();
  for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(p[i], (std::vector<double>{0.04, 0.08, 0.08, 0.16})[i], 1e-7);
  EXPECT_EQ(observed(lstsq(matrix({1, 2, 2, 4, 3, 6}, {3, 2}), of({3, 1}))).substr(0, 60),
            "0 2 [lstsq] the matrix must have full rank; got column 2 dep");
  EXPECT_EQ(observed(eigvalsh(matrix({1, NAN, NAN, 1}, {2, 2}))).substr(0, 51),
            "0 1 [eigh] the iteration must converge; it did not;");
  EXPECT_EQ(condition_number(matrix({1, 2, 2, 4}, {2, 2}), MatrixNorm::one).item(), INFINITY);
}

TEST(LinalgFunctions, RefuseDtypes) {
  expect_refused_as<DTypeError>({
      {[] {
         cholesky(of({2, 2}, DType::i32));
       },
       "[cholesky] takes floating matrices; got (2, 2) i32; cast it"},
      {[] {
         inverse(of({2, 2}, DType::boolean));
       },
       "[inverse] takes floating matrices; got (2, 2) bool; cast it"},
      {[] {
         solve(of({2, 2}), of({2, 2}, DType::f64));
       },
       "[solve] both operands have one dtype; got (2, 2) f32 and (2, 2) f64; cast one"},
      {[] {
         solve_triangular(of({2, 2}), of({2, 2}, DType::i64));
       },
       "[solve_triangular] takes floating matrices; got (2, 2) i64; cast it"},
  });
}

TEST(LinalgFailures, NameFunctionMatrixAndPivot) {
  const Tensor indefinite = matrix({1, 0, 0, 0, 2, 0, 0, 0, -1}, {3, 3});
  EXPECT_EQ(observed(cholesky(indefinite)),
            "0 3 [cholesky] the matrix must be positive definite; got a leading minor of order 3 that is not positive; "
            "add a small multiple of the identity, "
            "or look at the info of cholesky_ex()");
  const Tensor some = stack({eye(2, 2, DType::f32, &reference()), matrix({1, 2, 2, 4}, {2, 2})});
  EXPECT_EQ(observed(inverse(some)),
            "1 2 [inverse] the matrix must be invertible; got 0 as pivot 2 in matrix (1) of the batch (2); use pinv() "
            "or lstsq(), or look at the info of inverse_ex()");
  EXPECT_EQ(observed(solve(some, some)).substr(0, 12), "1 2 [solve] ");
  EXPECT_EQ(observed(some), "");  // told once
}

// Any value that is looked at later tells; what was asked for is not lost.
TEST(LinalgFailures, AreToldAtTheNextObservation) {
  const Tensor x = matrix({0, 0, 0, 0}, {2, 2}), y = x + 1;
  const Tensor made = inverse(x);
  eval({made});
  EXPECT_THROW(y.to_doubles(), LinAlgError);
  EXPECT_EQ(y.to_doubles(), std::vector<double>(4, 1));
  { const Tensor dropped = inverse(x); }
  EXPECT_THROW((y + 1).to_doubles(), LinAlgError) << "also of a result that nobody holds any more";
  const EagerScope eager;
  EXPECT_THROW(inverse(x), LinAlgError);
}

TEST(LinalgFailures, ExFunctionsTellByInfoAlone) {
  const Tensor some = stack({matrix({2, 0, 0, 2}, {2, 2}), matrix({1, 2, 2, 4}, {2, 2}), matrix({0, 0, 0, 0}, {2, 2})});
  const SolveInfo made = inverse_ex(some);
  EXPECT_EQ(made.info.to_vector<int>(), (std::vector<int>{0, 2, 1}));
  const std::vector<double> values = made.result.to_doubles();
  EXPECT_EQ((std::vector<double>(values.begin(), values.begin() + 4)), (std::vector<double>{0.5, 0, 0, 0.5}));
  for (size_t i = 4; i < values.size(); ++i) EXPECT_FALSE(std::isfinite(values[i])) << i;
  EXPECT_EQ(cholesky_ex(neg(some)).info.to_vector<int>(), (std::vector<int>{1, 1, 1}));
  EXPECT_EQ(solve_ex(some, some).info.to_vector<int>(), (std::vector<int>{0, 2, 1}));
  EXPECT_EQ(lu_factor(some).info.to_vector<int>(), (std::vector<int>{0, 2, 1}));
}

// Where there is no value to look at nothing throws.
TEST(LinalgFailures, TransformsGiveNumbersThatAreNone) {
  const Tensor some = stack({matrix({2, 0, 0, 2}, {2, 2}), matrix({-1, 0, 0, 2}, {2, 2})});
  const auto values = vmap([](const Tensor& x) { return cholesky(x); })(some).to_doubles();
  EXPECT_NEAR(values[0], std::sqrt(2.0), 1e-6);
  EXPECT_TRUE(std::isnan(values[4]));
  EXPECT_EQ(vmap([](const Tensor& x) { return cholesky_ex(x).info; })(some).to_vector<int>(), (std::vector<int>{0, 1}));
  auto compiled = compile([](const Tensor& x) { return cholesky(x); });
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(std::isnan(compiled(some).to_doubles()[4]));
}

TEST(LinalgFunctions, SingularDeterminants) {
  Tensor x = matrix({1, 2, 3, 2, 4, 6, 1, 0, 1}, {3, 3});
  x.set_requires_grad();
  const Tensor d = det(x);
  EXPECT_EQ(d.item(), 0);
  backward(d);
  const std::vector<double> cofactors{4, 4, -4, -2, -2, 2, 0, 0, 0};
  const std::vector<double> g = x.grad().to_doubles();
  for (size_t i = 0; i < g.size(); ++i) EXPECT_NEAR(g[i], cofactors[i], 1e-5) << i;
  const SignedLogDet parts = slogdet(x.detach());
  EXPECT_EQ(parts.sign.item(), 0);
  EXPECT_EQ(parts.logabsdet.item(), -INFINITY);
  EXPECT_TRUE(std::isnan(logdet(matrix({0, 1, 1, 0}, {2, 2})).item()));
}

TEST(LinalgFunctions, EmptyMatrices) {
  EXPECT_EQ(det(of({2, 0, 0})).to_doubles(), (std::vector<double>{1, 1}));
  EXPECT_EQ(inverse(of({0, 3, 3})).shape(), (Shape{0, 3, 3}));
  EXPECT_EQ(solve(eye(3, 3, DType::f32, &reference()), of({3, 0})).shape(), (Shape{3, 0}));
  EXPECT_EQ(lu(of({0, 3})).l.shape(), (Shape{0, 0}));
  EXPECT_EQ(lu(of({3, 0})).p.to_doubles(), (std::vector<double>{1, 0, 0, 0, 1, 0, 0, 0, 1}));
  EXPECT_EQ(cholesky(of({0, 0})).numel(), 0);
}

}  // namespace
}  // namespace heddle
