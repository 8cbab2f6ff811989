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
#include "heddle/core/tiles/tuning.h"
#include "tests/conformance/matrices.h"
#include "tests/support/device_test.h"

namespace heddle::tests {
namespace {

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
