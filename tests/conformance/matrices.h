// Batches of matrices in double precision, and how far results of f32 are from what they should be.
//
// Thread safety: pure, but that EXPECT_* records failures.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "heddle/core/functions/functions.h"
#include "tests/support/noise.h"

namespace heddle::tests {

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

inline Matrices random(int64_t count, int64_t m, int64_t n, uint64_t seed) {
  return {count, m, n, test::noise(count * m * n, seed)};
}
inline Matrices from(const Tensor& x) { return {x.dim(0), x.dim(1), x.dim(2), x.to_doubles()}; }

inline Matrices times(const Matrices& a, const Matrices& b, bool turn_b = false) {
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
inline Matrices definite(int64_t count, int64_t n, uint64_t seed) {
  Matrices a = random(count, n, n, seed), c = times(a, a, true);
  for (int64_t g = 0; g < count; ++g) {
    for (int64_t i = 0; i < n; ++i) c.at(g, i, i) += 1;
  }
  for (double& v : c.v) v = static_cast<double>(static_cast<float>(v));
  return c;
}

inline double largest(const Values& v) {
  double most = 0;
  for (double x : v) most = std::isfinite(x) ? std::max(most, std::abs(x)) : std::numeric_limits<double>::infinity();
  return most;
}

// Largest difference, in units of f32 rounding of the largest element.
inline double ulps(const Matrices& got, const Matrices& want) {
  EXPECT_EQ(got.v.size(), want.v.size());
  Values d(want.v.size());
  for (size_t i = 0; i < d.size(); ++i) d[i] = got.v[i] - want.v[i];
  return largest(d) / (largest(want.v) * 6e-8 + 1e-30);
}

// Distance of q^T q from the identity, in units of f32 rounding.
inline double skewness(const Matrices& q) {
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

inline void scale_columns(Matrices& x, const Values& by) {
  for (int64_t g = 0; g < x.count; ++g) {
    for (int64_t i = 0; i < x.m; ++i) {
      for (int64_t j = 0; j < x.n; ++j) x.at(g, i, j) *= by[static_cast<size_t>(g * x.n + j)];
    }
  }
}

}  // namespace heddle::tests
