// Reductions that specialize() cuts into stages: every kind, odd lengths, columns and middle axes, special values,
// against plain loops.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "heddle/core/functions/functions.h"
#include "tests/support/device_test.h"

namespace heddle::tests {
namespace {

class LongReduction : public DeviceTest {};

std::vector<float> values(size_t count, uint32_t seed = 1) {
  std::vector<float> x(count);
  for (float& v : x) {
    seed = seed * 1664525u + 1013904223u;
    v = static_cast<float>(seed >> 8) / 16777216.0f - 0.25f;
  }
  return x;
}

// Sums, largest and where, over the middle of (outer, length, inner).
void check(DeviceContext& d, int64_t outer, int64_t length, int64_t inner) {
  const std::vector<float> x = values(static_cast<size_t>(outer * length * inner));
  const Tensor t = Tensor::from_vector(x, {outer, length, inner}, &d);
  const Tensor total = sum(t, {1}), largest = max(t, {1}), smallest = min(t, {1}), at = argmax(t, 1),
               low = argmin(t, 1);
  eval({total, largest, smallest, at, low});
  const auto sums = total.to_vector<float>(), tops = largest.to_vector<float>(), bottoms = smallest.to_vector<float>();
  const auto places = at.to_vector<int64_t>(), lows = low.to_vector<int64_t>();
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t i = 0; i < inner; ++i) {
      double want = 0, magnitude = 0;
      int64_t best = 0, worst = 0;
      const auto element = [&](int64_t k) { return x[static_cast<size_t>((o * length + k) * inner + i)]; };
      for (int64_t k = 0; k < length; ++k) {
        want += element(k);
        magnitude += std::abs(element(k));
        if (element(k) > element(best)) best = k;
        if (element(k) < element(worst)) worst = k;
      }
      const auto n = static_cast<size_t>(o * inner + i);
      EXPECT_NEAR(sums[n], want, 2e-6 * magnitude) << length << " x " << inner;
      EXPECT_EQ(tops[n], element(best));
      EXPECT_EQ(bottoms[n], element(worst));
      EXPECT_EQ(places[n], best) << length << " x " << inner;
      EXPECT_EQ(lows[n], worst);
    }
  }
}

TEST_P(LongReduction, RowsOfAnyLength) {
  check(device(), 1, 300007, 1);  // prime: pieces and a rest
  check(device(), 1, 1 << 18, 1);
  check(device(), 3, 98304, 1);
}

TEST_P(LongReduction, ColumnsAndMiddleAxes) {
  check(device(), 1, 70001, 3);
  check(device(), 1, 5003, 130);
  check(device(), 2, 66000, 2);
}

TEST_P(LongReduction, AllAxes) {
  const std::vector<float> x = values(3 * 70000 * 2);
  const Tensor t = Tensor::from_vector(x, {3, 70000, 2}, &device());
  const double want = std::accumulate(x.begin(), x.end(), 0.0);
  EXPECT_NEAR(sum(t).item(), want, 1e-6 * 420000);
  EXPECT_NEAR(sum(permute(t, {2, 1, 0})).item(), want, 1e-6 * 420000);
  EXPECT_NEAR(mean(t * t).item(), std::inner_product(x.begin(), x.end(), x.begin(), 0.0) / 420000, 1e-6);
  EXPECT_EQ(max(t).item(), *std::max_element(x.begin(), x.end()));
}

// 65535 iterations of one work item are all that llvmpipe runs; 64-bit sums have one work item a row.
TEST_P(LongReduction, Integers) {
  std::vector<int32_t> x(200003);
  int64_t want = 0;
  for (size_t i = 0; i < x.size(); ++i) want += x[i] = static_cast<int32_t>(i % 1000) * 100000;
  const Tensor t = Tensor::from_vector(x, {200003}, &device());
  const Tensor total = sum(t);
  EXPECT_EQ(total.to_vector<int64_t>()[0], want);
  EXPECT_EQ(argmax(t).to_vector<int64_t>()[0], 999);
  EXPECT_EQ(max(t).to_vector<int32_t>()[0], 99900000);
  const Tensor columns =
      Tensor::from_vector(std::vector<int32_t>(x.begin(), x.begin() + 200000), {100000, 2}, &device());
  const auto sums = sum(columns, {0}).to_vector<int64_t>();
  EXPECT_EQ(sums[0], 100000LL * 100 * 499 * 100000 / 100);
  EXPECT_EQ(sums[0] + 10000000000LL, sums[1]);
}

// The first of equals and the first NaN win, in whichever piece they stand; a NaN is the maximum.
TEST_P(LongReduction, TiesAndNaN) {
  constexpr size_t n = 150001;
  std::vector<float> x(n, 1.0f);
  const auto best = [&] {
    return argmax(Tensor::from_vector(x, {static_cast<int64_t>(n)}, &device())).to_vector<int64_t>()[0];
  };
  EXPECT_EQ(best(), 0);
  x[140000] = x[70000] = 2;
  EXPECT_EQ(best(), 70000);
  x[n - 1] = NAN;
  EXPECT_EQ(best(), static_cast<int64_t>(n) - 1);
  x[90000] = x[90001] = NAN;
  EXPECT_EQ(best(), 90000);
  EXPECT_TRUE(std::isnan(max(Tensor::from_vector(x, {static_cast<int64_t>(n)}, &device())).item()));
  const std::vector<float> lowest(n, -INFINITY);
  EXPECT_EQ(argmax(Tensor::from_vector(lowest, {static_cast<int64_t>(n)}, &device())).to_vector<int64_t>()[0], 0);
}

// 20 million times 0.1: in one chain of additions f32 would stop near 2 million (2^21 + 0.1 = 2^21).
TEST_P(LongReduction, AccurateBeyondTheMantissa) {
  const int64_t n = 20000003;
  const Tensor t = Tensor::from_vector(std::vector<float>(static_cast<size_t>(n), 0.1f), {n}, &device());
  EXPECT_NEAR(sum(t).item() / (static_cast<double>(n) * 0.1f), 1, 3e-6);
}

// The mean is rounded to 8 at 1e8; what that shifts is taken out again.
TEST_P(LongReduction, VarianceFarFromZero) {
  std::vector<float> x(65536);
  double mean_of = 0, want = 0;
  for (size_t i = 0; i < x.size(); ++i) mean_of += x[i] = 1e8f + 8.0f * static_cast<float>(i * 7 % 13);
  mean_of /= static_cast<double>(x.size());
  for (const float v : x) want += (v - mean_of) * (v - mean_of);
  want /= static_cast<double>(x.size() - 1);
  EXPECT_NEAR(var(Tensor::from_vector(x, {65536}, &device())).item() / want, 1, 1e-5);
}

HEDDLE_DEVICE_TESTS(LongReduction);

}  // namespace
}  // namespace heddle::tests
