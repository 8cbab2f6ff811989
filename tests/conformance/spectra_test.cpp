// QR, eigenvalues and singular values on devices: every method, schedule and division into launches against products in
// double precision and against the reference's values; graded, clustered, deficient and awkward matrices.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "heddle/core/functions/functions.h"
#include "heddle/core/functions/linalg/matrix.h"
#include "heddle/core/tiles/tuning.h"
#include "tests/conformance/matrices.h"
#include "tests/support/device_test.h"

namespace heddle::tests {
namespace {

constexpr double unit_roundoff = 6e-8;

class Spectra : public DeviceTest {};

// Of a batch, the largest of `v`'s matrix g.
double largest_of(const Matrices& a, int64_t g) {
  const auto begin = a.v.begin() + g * a.m * a.n;
  return largest(Values(begin, begin + a.m * a.n));
}

// |got - want| of each matrix of a batch by that matrix's largest element, in units of f32 rounding.
double worst_ulps(const Matrices& got, const Matrices& want) {
  double most = 0;
  for (int64_t g = 0; g < want.count; ++g) {
    const double scale = largest_of(want, g) * unit_roundoff + 1e-38;
    for (int64_t i = 0; i < want.m * want.n; ++i) {
      const auto at = static_cast<size_t>(g * want.m * want.n + i);
      const double apart = std::abs(got.v[at] - want.v[at]) / scale;
      most = std::isfinite(apart) ? std::max(most, apart) : std::numeric_limits<double>::infinity();
    }
  }
  return most;
}

void check_qr(DeviceContext& d, int64_t count, int64_t m, int64_t n, bool complete = false) {
  const Matrices a = random(count, m, n, static_cast<uint64_t>(m + n));
  const QR made = qr(a.on(d), complete ? QRMode::complete : QRMode::reduced);
  const Matrices q = from(made.q), r = from(made.r);
  for (int64_t i = 0; i < r.m; ++i) {
    for (int64_t j = 0; j < std::min(i, r.n); ++j) EXPECT_EQ(r.at(0, i, j), 0);
  }
  const double much = 16 + static_cast<double>(n);
  EXPECT_LT(skewness(q), much) << m << " x " << n;
  EXPECT_LT(worst_ulps(times(q, r), a), much) << m << " x " << n;
}

// Singular values of each matrix in descending order, and near to those of the reference.
void check_singular_values(const Matrices& a, const Values& s) {
  const int64_t k = std::min(a.m, a.n);
  const Values want = svdvals(a.on(heddle::device("reference:0"))).to_doubles();
  for (int64_t i = 0; i < a.count * k; ++i) {
    const auto at = static_cast<size_t>(i), first = static_cast<size_t>(i / k * k);
    EXPECT_GE(s[at], i % k == k - 1 ? 0 : s[at + 1]) << "number " << i;
    EXPECT_NEAR(s[at], want[at], (8 + static_cast<double>(k)) * unit_roundoff * want[first]) << "number " << i;
  }
}

void check_svd(DeviceContext& d, const Matrices& a) {
  const SVD made = svd(a.on(d), false);
  Matrices u = from(made.u);
  const Values s = made.s.to_doubles();
  const double much = 24 + 2 * static_cast<double>(std::min(a.m, a.n));
  EXPECT_LT(skewness(u), much) << a.m << " x " << a.n;
  EXPECT_LT(skewness(from(transpose(made.vh))), much) << a.m << " x " << a.n;
  check_singular_values(a, s);
  scale_columns(u, s);
  EXPECT_LT(worst_ulps(times(u, from(made.vh)), a), much * std::sqrt(static_cast<double>(a.n))) << a.m << " x " << a.n;
}

Matrices symmetric(int64_t count, int64_t n, uint64_t seed) {
  Matrices a = random(count, n, n, seed);
  for (int64_t g = 0; g < count; ++g) {
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j < i; ++j) a.at(g, j, i) = a.at(g, i, j);
    }
  }
  return a;
}

void check_eigh(DeviceContext& d, const Matrices& a) {
  const Eigh made = eigh(a.on(d));
  const Matrices v = from(made.vectors);
  const Values w = made.values.to_doubles(), want = eigvalsh(a.on(heddle::device("reference:0"))).to_doubles();
  const double n = static_cast<double>(a.n), much = 24 + 2 * n;
  for (size_t i = 0; i < w.size(); ++i) {
    const size_t first = i / static_cast<size_t>(a.n) * static_cast<size_t>(a.n);
    const double norm = std::max(std::abs(want[first]), std::abs(want[first + static_cast<size_t>(a.n) - 1]));
    EXPECT_LE(w[i], (i + 1) % static_cast<size_t>(a.n) == 0 ? std::numeric_limits<double>::infinity() : w[i + 1]);
    EXPECT_NEAR(w[i], want[i], (8 + n) * unit_roundoff * norm) << "number " << i << " of " << a.n;
  }
  EXPECT_LT(skewness(v), much) << a.n;
  Matrices scaled = v;
  scale_columns(scaled, w);
  EXPECT_LT(worst_ulps(times(scaled, v, true), a), much * std::sqrt(n)) << a.n;
}

// All methods and schedules: condensed forms (LEAST small) or rotations of the whole.
struct Forced {
  Forced(int64_t schedule, int64_t least)
      : values{{"SCHEDULE", schedule}, {"LANES", 8}},
        qr({"qr", "", {}}, {{"SCHEDULE", schedule}}),
        first({"tridiagonal", "", {}}, values),
        second({"bidiagonal", "", {}}, values),
        third({"rotate_rows", "", {}}, values),
        fourth({"jacobi", "", {}}, values),
        method({"condensed", "", {}}, {{"LEAST", least}}) {}
  Bindings values;
  ScopedTuning qr, first, second, third, fourth, method;
};

TEST_P(Spectra, BySchedule) {
  for (const int64_t schedule : {0, 1}) {
    for (const int64_t least : {2, 1 << 20}) {
      const Forced forced(schedule, least);
      SCOPED_TRACE(fmt::format("schedule {}, condensed from {} on", schedule, least));
      check_svd(device(), random(2, 17, 17, 1));
      check_eigh(device(), symmetric(2, 17, 67));
      check_eigh(device(), symmetric(3, 2, 52));
    }
    const Forced forced(schedule, 2);
    check_qr(device(), 2, 17, 17);
    check_qr(device(), 3, 19, 7, true);
    check_qr(device(), 1, 7, 70);
  }
}

// Reflections and rotations divided among launches.
TEST_P(Spectra, ByLaunches) {
  const ScopedTuning a({"condensing_steps", "", {}}, {{"STEPS", 5}}), b({"sweeps_of_a_launch", "", {}}, {{"STEPS", 9}});
  check_svd(device(), random(2, 12, 12, 3));
  check_eigh(device(), symmetric(2, 12, 62));
  const ScopedTuning c({"condensed", "", {}}, {{"LEAST", 100}}), e({"jacobi_pairs", "", {}}, {{"STEPS", 200}});
  check_svd(device(), random(2, 12, 12, 3));
  check_eigh(device(), symmetric(2, 12, 62));
}

TEST_P(Spectra, QrByPanels) {
  const ScopedTuning forced({"linalg_block", "", {}}, {{"BLOCK", 5}});
  check_qr(device(), 2, 17, 17);
  check_qr(device(), 1, 21, 10);
  check_qr(device(), 2, 21, 7, true);
  check_qr(device(), 1, 9, 21);
  check_qr(device(), 1, 10, 11, true);
}

TEST_P(Spectra, Larger) {
  check_qr(device(), 1, 300, 40);
  check_qr(device(), 1, 130, 130);
  check_eigh(device(), symmetric(1, 64, 1));
  check_eigh(device(), symmetric(2, 131, 2));
  check_svd(device(), random(1, 80, 48, 8));
  check_svd(device(), random(1, 70, 129, 9));
}

// V diag(w) V^T of an orthogonal V.
Matrices with_spectrum(const Values& w, uint64_t seed) {
  const auto n = static_cast<int64_t>(w.size());
  const Matrices v = from(qr(random(1, n, n, seed).on(heddle::device("reference:0"))).q);
  Matrices scaled = v;
  scale_columns(scaled, w);
  Matrices a = times(scaled, v, true);
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j <= i; ++j)
      a.at(0, i, j) = a.at(0, j, i) = static_cast<double>(static_cast<float>(a.at(0, i, j)));
  }
  return a;
}

TEST_P(Spectra, GradedAndClustered) {
  constexpr size_t n = 40;
  Values graded(n), clusters(n), pairs(n), tiny(n, 1e-30);
  for (size_t i = 0; i < n; ++i) {
    graded[i] = std::pow(10.0, -0.4 * static_cast<double>(i));
    clusters[i] = i < n / 2 ? 1 : i < n - 3 ? 1 + 1e-7 : -1e-3;
    pairs[i] = (i % 2 == 0 ? 1 : -1) * (1 + static_cast<double>(i / 2));
  }
  for (const Values& w : {graded, clusters, pairs, tiny}) {
    const Matrices a = with_spectrum(w, 11);
    check_eigh(device(), a);
    check_svd(device(), a);
  }
  // Rows that grow, and rows that shrink: the sweeps begin at either end.
  for (const double ratio : {0.6, 1 / 0.6}) {
    Matrices a = symmetric(1, n, 12);
    for (int64_t i = 0; i < a.m; ++i) {
      for (int64_t j = 0; j < a.n; ++j) a.at(0, i, j) *= std::pow(ratio, static_cast<double>(i + j));
    }
    for (double& v : a.v) v = static_cast<double>(static_cast<float>(v));
    check_eigh(device(), a);
    check_svd(device(), a);
  }
}

TEST_P(Spectra, AlreadyCondensed) {
  Matrices a{3, 20, 20, Values(1200)};
  for (int64_t i = 0; i < 20; ++i) {
    a.at(0, i, i) = static_cast<double>(20 - i);  // diagonal
    a.at(1, i, i) = 2;
    if (i > 0) a.at(1, i, i - 1) = a.at(1, i - 1, i) = -1;  // second differences
    a.at(2, i, 19 - i) = 1;                                 // values 1 and -1
  }
  check_eigh(device(), a);
  check_svd(device(), a);
  Matrices shifts{2, 20, 20, Values(800)};
  for (int64_t i = 0; i < 20; ++i) {
    shifts.at(0, i, (i + 1) % 20) = 1;
    if (i > 0) shifts.at(1, i - 1, i) = 1;  // nilpotent: a zero in each place of the diagonal
    if (i < 10) shifts.at(1, i, i) = i % 3 == 0 ? 0 : 1;
  }
  check_svd(device(), shifts);
}

TEST_P(Spectra, DeficientMatrices) {
  Matrices a = random(1, 24, 14, 5);
  for (int64_t i = 0; i < 24; ++i) {
    a.at(0, i, 3) = a.at(0, i, 1);  // of rank 12, with a column of zeros
    a.at(0, i, 5) = 0;
  }
  check_svd(device(), a);
  for (double& v : a.v) v = static_cast<double>(static_cast<float>(v * 1e30));
  check_svd(device(), a);
  EXPECT_EQ(matrix_rank(a.on(device())).to_vector<int>()[0], 12);
  Matrices one{1, 30, 30, Values(900)};
  for (int64_t i = 0; i < 30; ++i) {
    for (int64_t j = 0; j < 30; ++j) one.at(0, i, j) = static_cast<double>(i + 1);  // of rank 1
  }
  check_svd(device(), one);
}

TEST_P(Spectra, SpecialValues) {
  for (const int64_t n : {5, 20}) {
    Matrices same{1, n, n, Values(static_cast<size_t>(n * n))};
    Values want(static_cast<size_t>(n), 2);
    want[0] = -2;
    for (int64_t i = 0; i < n; ++i) same.at(0, i, i) = i + 1 < n ? 2 : -2;
    const Values got = eigvalsh(same.on(device())).to_doubles();
    for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-6) << i << " of " << n;
    EXPECT_EQ(svdvals(zeros({n, n + 1}, DType::f32, &device())).to_doubles(), Values(static_cast<size_t>(n)));
    EXPECT_EQ(eigvalsh(zeros({n, n}, DType::f32, &device())).to_doubles(), Values(static_cast<size_t>(n)));
    for (const double value : {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
      Matrices bad = random(1, n, n, 6);
      bad.at(0, 1, 1) = value;
      EXPECT_THROW(svdvals(bad.on(device())).to_doubles(), LinAlgError);
      EXPECT_THROW(eigvalsh(bad.on(device())).to_doubles(), LinAlgError);
      EXPECT_FALSE(std::isfinite(largest(from(qr(bad.on(device())).q).v)));
    }
  }
  EXPECT_EQ(eigvalsh(zeros({0, 20, 20}, DType::f32, &device())).numel(), 0);
  EXPECT_EQ(svdvals(zeros({0, 20, 12}, DType::f32, &device())).numel(), 0);
  EXPECT_EQ(svdvals(zeros({2, 0, 12}, DType::f32, &device())).numel(), 0);
}

// The same bits again, alone and within a batch.
TEST_P(Spectra, TheSameBitsAgain) {
  const Matrices a = symmetric(3, 33, 4);
  const Values first = eigh(a.on(device())).vectors.to_doubles(), second = eigh(a.on(device())).vectors.to_doubles();
  EXPECT_EQ(first, second);
  EXPECT_EQ(svd(a.on(device())).u.to_doubles(), svd(a.on(device())).u.to_doubles());
}

TEST_P(Spectra, InDoublePrecision) {
  if (!device().caps().f64) GTEST_SKIP() << "no f64";
  const Matrices a = symmetric(2, 21, 13);
  const Tensor x = Tensor::from_vector(a.v, Shape{2, 21, 21}, &device());
  const Eigh made = eigh(x);
  const Matrices v = from(made.vectors);
  Matrices scaled = v;
  scale_columns(scaled, made.values.to_doubles());
  EXPECT_LT(worst_ulps(times(scaled, v, true), a), 1e-6);
  const SVD parts = svd(x);
  Matrices u = from(parts.u);
  scale_columns(u, parts.s.to_doubles());
  EXPECT_LT(worst_ulps(times(u, from(parts.vh)), a), 1e-6);
  const QR factors = qr(x);
  EXPECT_LT(worst_ulps(times(from(factors.q), from(factors.r)), a), 1e-6);
}

HEDDLE_DEVICE_TESTS(Spectra);

}  // namespace
}  // namespace heddle::tests
