// Linear algebra on devices: every schedule and block size against products in double precision, matrices of several
// blocks, singular ones.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "heddle/autograd/autograd.h"
#include "heddle/autograd/transforms.h"
#include "heddle/autograd/vmap.h"
#include "heddle/core/compile/compile.h"
#include "heddle/core/functions/functions.h"
#include "heddle/core/functions/linalg/matrix.h"
#include "heddle/core/tiles/tuning.h"
#include "tests/support/device_test.h"
#include "tests/support/noise.h"

namespace heddle::tests {
namespace {

using test::noise;
using Values = std::vector<double>;

struct Matrices {
  int64_t count, m, n;
  Values v;
  double& at(int64_t b, int64_t i, int64_t j) { return v[static_cast<size_t>((b * m + i) * n + j)]; }
  double at(int64_t b, int64_t i, int64_t j) const { return v[static_cast<size_t>((b * m + i) * n + j)]; }
  Tensor on(DeviceContext& d) const {
    return Tensor::from_vector(std::vector<float>(v.begin(), v.end()), Shape{count, m, n}, &d);
  }
};

Matrices random(int64_t count, int64_t m, int64_t n, uint64_t seed) {
  return {count, m, n, noise(count * m * n, seed)};
}
Matrices from(const Tensor& x) { return {x.dim(0), x.dim(1), x.dim(2), x.to_doubles()}; }

Matrices times(const Matrices& a, const Matrices& b, bool turn_b = false) {
  Matrices c{a.count, a.m, turn_b ? b.m : b.n, {}};
  c.v.resize(static_cast<size_t>(c.count * c.m * c.n));
  for (int64_t g = 0; g < c.count; ++g) {
    for (int64_t i = 0; i < c.m; ++i) {
      for (int64_t k = 0; k < a.n; ++k) {
        for (int64_t j = 0; j < c.n; ++j) c.at(g, i, j) += a.at(g, i, k) * (turn_b ? b.at(g, j, k) : b.at(g, k, j));
      }
    }
  }
  return c;
}

// Symmetric positive definite, rounded to floats.
Matrices definite(int64_t count, int64_t n, uint64_t seed) {
  Matrices a = random(count, n, n, seed), c = times(a, a, true);
  for (int64_t g = 0; g < count; ++g) {
    for (int64_t i = 0; i < n; ++i) c.at(g, i, i) += 1;
  }
  for (double& v : c.v) v = static_cast<double>(static_cast<float>(v));
  return c;
}

double largest(const Values& v) {
  double most = 0;
  for (double x : v) most = std::isfinite(x) ? std::max(most, std::abs(x)) : std::numeric_limits<double>::infinity();
  return most;
}

// Largest difference, in units of f32 rounding of the largest element.
double ulps(const Matrices& got, const Matrices& want) {
  EXPECT_EQ(got.v.size(), want.v.size());
  Values d(want.v.size());
  for (size_t i = 0; i < d.size(); ++i) d[i] = got.v[i] - want.v[i];
  return largest(d) / (largest(want.v) * 6e-8 + 1e-30);
}

class Linalg : public DeviceTest {};

void check_cholesky(DeviceContext& d, int64_t count, int64_t n) {
  const Matrices a = definite(count, n, static_cast<uint64_t>(n));
  const Matrices l = from(cholesky(a.on(d)));
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = i + 1; j < n; ++j) EXPECT_EQ(l.at(count - 1, i, j), 0);
  }
  EXPECT_LT(ulps(times(l, l, true), a), 8 + 0.2 * static_cast<double>(n)) << n;
}

void check_lu(DeviceContext& d, int64_t count, int64_t m, int64_t n) {
  const Matrices a = random(count, m, n, static_cast<uint64_t>(m * 100 + n));
  const LUMatrices made = lu(a.on(d));
  const Matrices l = from(made.l);
  EXPECT_LE(largest(l.v), 1) << "pivots are largest";
  EXPECT_LT(ulps(times(from(made.p), times(l, from(made.u))), a), 16 + 0.5 * static_cast<double>(n)) << m << " x " << n;
}

// Residual, in units of rounding of |T| |x|.
void check_triangular(DeviceContext& d, int64_t count, int64_t n, int64_t k, TriangularOptions how) {
  Matrices t = random(count, n, n, static_cast<uint64_t>(n + k));
  for (int64_t g = 0; g < count; ++g) {
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j < n; ++j)
        t.at(g, i, j) = i == j ? 2 + t.at(g, i, i) : t.at(g, i, j) * (how.unit ? 2.0 / static_cast<double>(n) : 1);
    }
  }
  const Matrices b = random(count, n, k, 7), x = from(solve_triangular(t.on(d), b.on(d), how));
  for (int64_t g = 0; g < count; ++g) {
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        if (how.upper ? i > j : i < j) t.at(g, i, j) = 0;
        if (how.unit && i == j) t.at(g, i, j) = 1;
      }
    }
  }
  Matrices op = t;
  for (int64_t g = 0; how.transposed && g < count; ++g) {
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j < n; ++j) op.at(g, i, j) = t.at(g, j, i);
    }
  }
  const Matrices back = times(op, x);
  for (int64_t g = 0; g < count; ++g) {
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t c = 0; c < k; ++c) {
        double scale = 0;
        for (int64_t j = 0; j < n; ++j) scale += std::abs(op.at(g, i, j) * x.at(g, j, c));
        EXPECT_LT(std::abs(back.at(g, i, c) - b.at(g, i, c)), (4 + 0.3 * static_cast<double>(n)) * 6e-8 * scale)
            << n << " x " << k << " at " << i;
      }
    }
  }
}

void check_all(DeviceContext& d) {
  for (const int64_t n : {1, 5, 33}) {
    check_cholesky(d, 2, n);
    check_lu(d, 2, n, n);
    check_triangular(d, 2, n, 5, {.upper = n % 2 == 0, .transposed = n == 5});
  }
  check_lu(d, 3, 19, 7);
  check_lu(d, 3, 7, 19);
  check_triangular(d, 1, 20, 70, {.upper = true, .unit = true});
  check_triangular(d, 1, 20, 1, {.upper = true, .transposed = true});
}

TEST_P(Linalg, BySchedule) {
  for (const int64_t schedule : {0, 1}) {
    const ScopedTuning a({"cholesky", "", {}}, {{"SCHEDULE", schedule}, {"LANES", 8}}),
        b({"lu", "", {}}, {{"SCHEDULE", schedule}, {"LANES", 8}}),
        c({"triangular", "", {}}, {{"SCHEDULE", schedule}, {"LANES", 16}, {"WIDTH", 64}});
    SCOPED_TRACE(fmt::format("schedule {}", schedule));
    check_all(device());
  }
}

TEST_P(Linalg, ByBlocks) {
  for (const int64_t block : {5}) {
    const ScopedTuning forced({"linalg_block", "", {}}, {{"BLOCK", block}});
    SCOPED_TRACE(fmt::format("blocks of {}", block));
    check_cholesky(device(), 2, 17);
    check_lu(device(), 2, 17, 17);
    check_lu(device(), 1, 21, 9);
    check_lu(device(), 1, 9, 21);
    for (int form = 0; form < 4; ++form)
      check_triangular(device(), 2, 13, 3, {.upper = (form & 1) != 0, .transposed = (form & 2) != 0});
  }
}

TEST_P(Linalg, LargeMatrices) {
  check_cholesky(device(), 1, 300);
  check_lu(device(), 1, 300, 300);
  check_lu(device(), 1, 700, 40);
  const Matrices a = random(1, 260, 260, 3), b = random(1, 260, 2, 4);
  const Matrices x = from(solve(a.on(device()), b.on(device())));
  const Matrices back = times(a, x);
  Values d(b.v.size());
  for (size_t i = 0; i < d.size(); ++i) d[i] = back.v[i] - b.v[i];
  EXPECT_LT(largest(d), 260 * 6e-8 * 260 * largest(x.v) * 0.1);
}

TEST_P(Linalg, ManySmallMatrices) {
  check_cholesky(device(), 300, 4);
  check_lu(device(), 300, 3, 3);
}

// Distance of q^T q from the identity, in units of f32 rounding.
double skewness(const Matrices& q) {
  double most = 0;
  for (int64_t g = 0; g < q.count; ++g) {
    for (int64_t i = 0; i < q.n; ++i) {
      for (int64_t j = 0; j < q.n; ++j) {
        double dot = 0;
        for (int64_t k = 0; k < q.m; ++k) dot += q.at(g, k, i) * q.at(g, k, j);
        most = std::max(most, std::abs(dot - (i == j)));
      }
    }
  }
  return most / 6e-8;
}

void check_qr(DeviceContext& d, int64_t count, int64_t m, int64_t n) {
  const Matrices a = random(count, m, n, static_cast<uint64_t>(m + n));
  const QR made = qr(a.on(d));
  const Matrices q = from(made.q), r = from(made.r);
  for (int64_t i = 0; i < r.m; ++i) {
    for (int64_t j = 0; j < i; ++j) EXPECT_EQ(r.at(0, i, j), 0);
  }
  const double much = 16 + static_cast<double>(n);
  EXPECT_LT(skewness(q), much) << m << " x " << n;
  EXPECT_LT(ulps(times(q, r), a), much) << m << " x " << n;
}

void scale_columns(Matrices& x, const Values& by) {
  for (int64_t g = 0; g < x.count; ++g) {
    for (int64_t i = 0; i < x.m; ++i) {
      for (int64_t j = 0; j < x.n; ++j) x.at(g, i, j) *= by[static_cast<size_t>(g * x.n + j)];
    }
  }
}

void check_svd(DeviceContext& d, const Matrices& a) {
  const SVD made = svd(a.on(d), false);
  Matrices u = from(made.u), vt = from(made.vh);
  const Values s = made.s.to_doubles();
  const double much = 24 + 2 * static_cast<double>(std::min(a.m, a.n));
  EXPECT_LT(skewness(u), much) << a.m << " x " << a.n;
  EXPECT_LT(skewness(from(transpose(made.vh))), much);
  for (size_t i = 0; i < s.size(); ++i)
    EXPECT_GE(s[i], i % static_cast<size_t>(u.n) + 1 == static_cast<size_t>(u.n) || i + 1 == s.size() ? 0 : s[i + 1]);
  scale_columns(u, s);
  EXPECT_LT(ulps(times(u, vt), a), much * std::sqrt(static_cast<double>(a.n))) << a.m << " x " << a.n;
}

void check_eigh(DeviceContext& d, int64_t count, int64_t n) {
  Matrices a = random(count, n, n, static_cast<uint64_t>(n) + 50);
  for (int64_t g = 0; g < count; ++g) {
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j < i; ++j) a.at(g, j, i) = a.at(g, i, j);
    }
  }
  const Eigh made = eigh(a.on(d));
  const Matrices v = from(made.vectors);
  Matrices scaled = v;
  const Values w = made.values.to_doubles();
  for (int64_t i = 0; i + 1 < n; ++i) EXPECT_LE(w[static_cast<size_t>(i)], w[static_cast<size_t>(i + 1)]);
  scale_columns(scaled, w);
  const double much = 24 + 2 * static_cast<double>(n);
  EXPECT_LT(skewness(v), much) << n;
  EXPECT_LT(ulps(times(scaled, v, true), a), much * std::sqrt(static_cast<double>(n))) << n;
}

TEST_P(Linalg, SpectraBySchedule) {
  for (const int64_t schedule : {0, 1}) {
    const Bindings forced_values{{"SCHEDULE", schedule}, {"LANES", 8}};
    const ScopedTuning a({"qr", "", {}}, forced_values), b({"qr_apply", "", {}}, forced_values),
        c({"jacobi", "", {}}, forced_values);
    SCOPED_TRACE(fmt::format("schedule {}", schedule));
    check_qr(device(), 2, 17, 17);
    check_qr(device(), 3, 19, 7);
    check_qr(device(), 1, 7, 70);
    check_svd(device(), random(2, 17, 17, 1));
    check_eigh(device(), 2, 17);
    check_eigh(device(), 3, 2);
  }
}

// Reflections and rotations divided among launches.
TEST_P(Linalg, SpectraByLaunches) {
  const ScopedTuning a({"qr_steps", "", {}}, {{"STEPS", 3}}), b({"jacobi_pairs", "", {}}, {{"STEPS", 200}});
  check_qr(device(), 2, 11, 8);
  check_svd(device(), random(2, 12, 12, 3));
  check_eigh(device(), 2, 12);
}

TEST_P(Linalg, SpectraOfAwkwardMatrices) {
  Matrices a = random(1, 12, 6, 5);
  for (int64_t i = 0; i < 12; ++i) {
    a.at(0, i, 3) = a.at(0, i, 1);  // of rank 4, with a column of zeros
    a.at(0, i, 5) = 0;
  }
  check_svd(device(), a);
  for (double& v : a.v) v = static_cast<double>(static_cast<float>(v * 1e30));
  check_svd(device(), a);
  EXPECT_EQ(matrix_rank(a.on(device())).to_vector<int>()[0], 4);
  Matrices same{1, 5, 5, Values(25)};
  for (int64_t i = 0; i < 5; ++i) same.at(0, i, i) = i < 4 ? 2 : -2;
  EXPECT_EQ(eigvalsh(same.on(device())).to_doubles(), (Values{-2, 2, 2, 2, 2}));
  EXPECT_EQ(svdvals(zeros({3, 4}, DType::f32, &device())).to_doubles(), Values(3));
  Matrices bad = random(1, 4, 4, 6);
  bad.at(0, 1, 1) = std::numeric_limits<double>::infinity();
  EXPECT_THROW(svdvals(bad.on(device())).to_doubles(), LinAlgError);
}

TEST_P(Linalg, LargerSpectra) {
  check_qr(device(), 1, 300, 40);
  check_eigh(device(), 1, 64);
  check_svd(device(), random(1, 80, 48, 8));
}

// Failures of the second block count from the matrix's beginning; what came before is right.
TEST_P(Linalg, SingularAndIndefinite) {
  for (const int64_t block : {4, 128}) {
    const ScopedTuning forced({"linalg_block", "", {}}, {{"BLOCK", block}});
    Matrices a = definite(3, 10, 5);
    a.at(1, 6, 6) = -1;
    a.at(2, 0, 0) = std::numeric_limits<double>::quiet_NaN();
    const CholeskyInfo made = cholesky_ex(a.on(device()));
    EXPECT_EQ(made.info.to_vector<int>(), (std::vector<int>{0, 7, 1}));
    const Matrices l = from(made.factor);
    EXPECT_TRUE(std::isfinite(l.at(1, 5, 5)));
    EXPECT_TRUE(std::isnan(l.at(1, 9, 9)));
    Matrices s = random(2, 10, 10, 6);
    for (int64_t i = 0; i < 10; ++i) s.at(1, i, 7) = 0;
    const SolveInfo inverted = inverse_ex(s.on(device()));
    EXPECT_EQ(inverted.info.to_vector<int>(), (std::vector<int>{0, 8}));
    EXPECT_TRUE(std::isfinite(from(inverted.result).at(0, 0, 0)));
    EXPECT_FALSE(std::isfinite(largest(from(inverted.result).v)));
    EXPECT_EQ(solve_ex(s.on(device()), s.on(device())).info.to_vector<int>(), (std::vector<int>{0, 8}));
    EXPECT_THROW(solve(s.on(device()), s.on(device())).to_doubles(), LinAlgError);
    EXPECT_EQ(det(s.on(device())).to_doubles()[1], 0);
  }
}

// A NaN is largest, as in every comparison of Heddle, and spreads.
TEST_P(Linalg, NanInFactors) {
  Matrices a = random(1, 5, 5, 8);
  a.at(0, 3, 0) = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(lu_factor(a.on(device())).permutation.to_vector<int>()[0], 3);
  for (const double v : inverse_ex(a.on(device())).result.to_doubles()) EXPECT_TRUE(std::isnan(v));
}

TEST_P(Linalg, ComposesWithTransforms) {
  const Tensor a = random(4, 5, 5, 9).on(device()), b = random(1, 5, 2, 10).on(device());
  const auto f = [](const Tensor& m, const Tensor& right) {
    return sum(square(solve(m, right))) + slogdet(m).logabsdet;
  };
  const Tensor mapped = vmap(grad(f), {0, std::nullopt})(a, reshape(b, {5, 2}));
  auto compiled = compile(vmap(grad(f), {0, std::nullopt}));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(compiled(a, reshape(b, {5, 2})).to_doubles(), mapped.to_doubles());
  for (int64_t g = 0; g < 4; ++g) {
    const std::vector<double> one =
                                  grad(f)(reshape(slice(a, 0, {.start = g, .stop = g + 1}), {5, 5}), reshape(b, {5, 2}))
                                      .to_doubles(),
                              all = mapped.to_doubles();
    for (size_t i = 0; i < one.size(); ++i)
      EXPECT_NEAR(all[static_cast<size_t>(g) * 25 + i], one[i], 1e-4 * (1 + std::abs(one[i])));
  }
  const auto shared = vmap([](const Tensor& m, const Tensor& right) { return solve(m, right); }, {std::nullopt, 0});
  const Tensor m = reshape(slice(a, 0, {.stop = 1}), {5, 5}), rights = random(3, 5, 2, 11).on(device());
  const std::vector<double> folded = shared(m, rights).to_doubles(), plain = solve(m, rights).to_doubles();
  for (size_t i = 0; i < plain.size(); ++i) EXPECT_NEAR(folded[i], plain[i], 1e-4 * (1 + std::abs(plain[i])));
}

HEDDLE_DEVICE_TESTS(Linalg);

}  // namespace
}  // namespace heddle::tests
