// Sorts, scans and scatters against plain loops: odd sizes, long rows of several kernels, ties, NaN, every dtype, every
// schedule forced.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

#include "heddle/autograd/autograd.h"
#include "heddle/core/device/context.h"
#include "heddle/core/functions/functions.h"
#include "heddle/core/tiles/tuning.h"
#include "tests/support/device_test.h"

namespace heddle::tests {
namespace {

class Order : public DeviceTest {
 protected:
  bool has_i64() const { return device().caps().i64; }
};

std::vector<float> values(size_t count, int distinct, uint32_t seed = 1) {
  std::vector<float> x(count);
  for (float& v : x) {
    seed = seed * 1664525u + 1013904223u;
    v = static_cast<float>(static_cast<int>(seed >> 8) % distinct - distinct / 2) / 4;
  }
  return x;
}

template <class T>
std::vector<int64_t> expected_order(const T* x, int64_t size, bool descending) {
  std::vector<int64_t> order(static_cast<size_t>(size));
  std::iota(order.begin(), order.end(), 0);
  const auto larger = [](T a, T b) { return a > b || (a != a && b == b); };
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return descending ? larger(x[a], x[b]) : larger(x[b], x[a]); });
  return order;
}

void check_sort(DeviceContext& d, int64_t rows, int64_t size, int distinct, bool descending) {
  std::vector<float> x = values(static_cast<size_t>(rows * size), distinct);
  for (size_t i = 5; i < x.size(); i += 97) x[i] = i % 2 ? NAN : (i % 4 ? INFINITY : -INFINITY);
  const auto got = argsort(Tensor::from_vector(x, {rows, size}, &d), 1, descending).to_vector<int64_t>();
  for (int64_t r = 0; r < rows; ++r) {
    const std::vector<int64_t> want = expected_order(x.data() + r * size, size, descending);
    EXPECT_TRUE(std::equal(want.begin(), want.end(), got.begin() + r * size))
        << rows << " x " << size << (descending ? " descending" : "") << ", row " << r;
  }
}

TEST_P(Order, ArgsortAtAnySize) {
  const int64_t sizes[][2] = {{1, 1}, {3, 2}, {5, 33}, {2, 129}, {3, 500}, {2, 1500}, {1, 10007}};
  for (const auto& s : sizes) {
    check_sort(device(), s[0], s[1], 1 << 20, false);
    check_sort(device(), s[0], s[1], 7, true);
  }
}

TEST_P(Order, SortGivesValuesAlongAnyAxis) {
  const std::vector<float> x = values(4 * 300 * 3, 50);
  const Tensor t = Tensor::from_vector(x, {4, 300, 3}, &device());
  const Ordered sorted = sort(t, 1);
  const auto v = sorted.values.to_vector<float>();
  const auto at = sorted.indices.to_vector<int64_t>();
  for (size_t o = 0; o < 4; ++o) {
    for (size_t i = 0; i < 3; ++i) {
      for (size_t k = 0; k < 300; ++k) {
        const size_t n = (o * 300 + k) * 3 + i;
        EXPECT_EQ(v[n], x[(o * 300 + static_cast<size_t>(at[n])) * 3 + i]);
        EXPECT_LE(v[k > 0 ? n - 3 : n], v[n]);
      }
    }
  }
  EXPECT_EQ(sort(zeros({0, 3}, DType::f32, &device()), 0).values.shape(), (Shape{0, 3}));
  EXPECT_EQ(topk(t, 0, 1).indices.shape(), (Shape{4, 0, 3}));
}

TEST_P(Order, TopK) {
  for (const int64_t size : {7, 700, 5000}) {
    const std::vector<float> x = values(static_cast<size_t>(2 * size), 40);
    for (const int64_t k : {int64_t{1}, int64_t{5}, size}) {
      const auto got = topk(Tensor::from_vector(x, {2, size}, &device()), k).indices.to_vector<int64_t>();
      for (int64_t r = 0; r < 2; ++r) {
        const auto want = expected_order(x.data() + r * size, size, true);
        EXPECT_TRUE(std::equal(want.begin(), want.begin() + k, got.begin() + r * k)) << k << " of " << size;
      }
    }
  }
}

TEST_P(Order, EveryDType) {
  const std::vector<float> x = values(300, 90);
  for (const DType t :
       {DType::f16, DType::bf16, DType::i8, DType::u8, DType::i32, DType::i64, DType::f64, DType::boolean}) {
    if ((t == DType::i64 && !has_i64()) || (t == DType::f64 && !device().caps().f64)) continue;
    const Tensor in = cast(Tensor::from_vector(x, {300}, &device()), t);
    const std::vector<double> numbers = in.to_doubles();
    EXPECT_EQ(argsort(in).to_vector<int64_t>(), expected_order(numbers.data(), 300, false)) << name_of(t);
  }
}

// Both schedules of each body and several sizes of its group, whatever the device prefers.
TEST_P(Order, ForcedSchedules) {
  for (const Bindings& b : {Bindings{{"SCHEDULE", 0}, {"LANES", 16}}, Bindings{{"SCHEDULE", 0}, {"LANES", 64}},
                            Bindings{{"SCHEDULE", 1}}}) {
    const ScopedTuning blocks({"sort_blocks", "", {}}, b);
    const ScopedTuning merges({"sort_merge", "", {}},
                              {{"LANES", b.at("SCHEDULE") ? 1 : 32}, {"CHUNK", b.at("SCHEDULE") ? 64 : 4}});
    check_sort(device(), 2, 1301, 30, false);
    check_sort(device(), 3, 77, 1 << 20, true);
  }
}

void check_scan(DeviceContext& d, int64_t outer, int64_t size, int64_t inner, bool exclusive, bool reverse) {
  const std::vector<float> x = values(static_cast<size_t>(outer * size * inner), 9);
  const auto got = cumsum(Tensor::from_vector(x, {outer, size, inner}, &d), 1, exclusive, reverse).to_vector<float>();
  size_t wrong = 0;
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t i = 0; i < inner; ++i) {
      double sum = 0;
      for (int64_t k = 0; k < size; ++k) {
        const auto n = static_cast<size_t>((o * size + (reverse ? size - 1 - k : k)) * inner + i);
        const double before = sum;
        sum += x[n];
        wrong += got[n] != static_cast<float>(exclusive ? before : sum);  // quarters: exact
      }
    }
  }
  EXPECT_EQ(wrong, 0u) << outer << " x " << size << " x " << inner << (exclusive ? " exclusive" : "")
                       << (reverse ? " reverse" : "");
}

// The largest so far and where it was last, and the logarithm of the running sum of e^x, by plain loops.
void check_running(DeviceContext& d, int64_t outer, int64_t size, int64_t inner) {
  std::vector<float> x = values(static_cast<size_t>(outer * size * inner), 9);
  if (size > 40) x[static_cast<size_t>((size - 7) * inner)] = std::numeric_limits<float>::quiet_NaN();
  x[0] = -std::numeric_limits<float>::infinity();
  const Tensor t = Tensor::from_vector(x, {outer, size, inner}, &d);
  const Ordered best = cummax(t, 1);
  const auto largest = best.values.to_vector<float>();
  const std::vector<double> places = cast(best.indices, DType::i32).to_doubles();
  const auto logs = logcumsumexp(t, 1).to_vector<float>();
  size_t wrong = 0;
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t i = 0; i < inner; ++i) {
      double total = 0;
      int64_t at = -1;
      for (int64_t k = 0; k < size; ++k) {
        const auto n = static_cast<size_t>((o * size + k) * inner + i);
        const float before =
            at < 0 ? -std::numeric_limits<float>::infinity() : x[static_cast<size_t>((o * size + at) * inner + i)];
        if (x[n] != x[n] || x[n] >= before) at = k;
        const float expected = x[static_cast<size_t>((o * size + at) * inner + i)];
        total += std::exp(static_cast<double>(x[n]));
        const double log = std::log(total);
        const bool same_log = std::isnan(log) ? std::isnan(logs[n])
                                              : logs[n] == log || std::abs(logs[n] - log) <= 1e-5 * (1 + std::abs(log));
        const bool same = std::isnan(expected) ? std::isnan(largest[n]) : largest[n] == expected;
        wrong += !same || places[n] != static_cast<double>(at) || !same_log;
      }
    }
  }
  EXPECT_EQ(wrong, 0u) << outer << " x " << size << " x " << inner;
}

TEST_P(Order, RunningExtremesAndLogarithms) {
  const int64_t sizes[][3] = {{3, 70, 1}, {2, 33, 5}, {1, 30011, 1}, {1, 9001, 3}};
  for (const auto& s : sizes) check_running(device(), s[0], s[1], s[2]);
  for (const int64_t schedule : {0, 1, 2}) {
    const ScopedTuning forced({"scan", "", {}}, {{"SCHEDULE", schedule}, {"LANES", 16}, {"WIDTH", 16}});
    check_running(device(), 2, 513, 1);
  }
}

void check_scans(DeviceContext& d) {
  const int64_t sizes[][3] = {{1, 1, 1}, {3, 70, 1}, {2, 33, 5}, {1, 5000, 1}, {1, 3001, 3}};
  for (const auto& s : sizes) {
    check_scan(d, s[0], s[1], s[2], false, false);
    check_scan(d, s[0], s[1], s[2], true, true);
  }
}

TEST_P(Order, RunningSums) {
  check_scans(device());
  check_scan(device(), 1, 100003, 1, false, true);
  check_scan(device(), 2, 20000, 2, true, false);
}

TEST_P(Order, RunningSumsBySchedule) {
  for (const int64_t schedule : {0, 1, 2}) {
    const ScopedTuning forced({"scan", "", {}}, {{"SCHEDULE", schedule}, {"LANES", 16}, {"WIDTH", 16}});
    check_scans(device());
  }
}

TEST_P(Order, RunningProductsAndIntegers) {
  const Tensor x = Tensor::from_vector(std::vector<float>{2, -1, 0.5, 3}, {4}, &device());
  EXPECT_EQ(cumprod(x, 0).to_vector<float>(), (std::vector<float>{2, -2, -1, -3}));
  EXPECT_EQ(cumprod(x, 0, true, true).to_vector<float>(), (std::vector<float>{-1.5, 1.5, 3, 1}));
  if (!has_i64()) GTEST_SKIP() << "no i64: the sums of integers were not computed";
  std::vector<int32_t> big(70000, 100000);
  EXPECT_EQ(cumsum(Tensor::from_vector(big, {70000}, &device()), 0).to_vector<int64_t>().back(), 7000000000LL);
}

TEST_P(Order, RunningSumOfManyOnesIsAccurate) {
  const int64_t n = 3000000;
  const auto got = cumsum(Tensor::from_vector(std::vector<float>(static_cast<size_t>(n), 0.1f), {n}, &device()), 0)
                       .to_vector<float>();
  for (size_t i = 0; i < got.size(); i += 99991)
    EXPECT_NEAR(got[i] / (static_cast<double>(i + 1) * 0.1f), 1, 1e-5) << i;
}

void check_index_add(DeviceContext& d, int64_t rows, int64_t columns, int64_t count, bool zero) {
  const std::vector<float> base = values(static_cast<size_t>(rows * columns), 9, 3),
                           updates = values(static_cast<size_t>(count * columns), 9, 4);
  std::vector<int32_t> at(static_cast<size_t>(count));
  for (size_t i = 0; i < at.size(); ++i)
    at[i] = static_cast<int32_t>((i * 7919) % static_cast<size_t>(rows + 4)) - 2;  // some outside
  std::vector<float> want = zero ? std::vector<float>(base.size(), 0.0f) : base;
  for (size_t i = 0; i < at.size(); ++i) {
    for (int64_t c = 0; at[i] >= 0 && at[i] < rows && c < columns; ++c) {
      want[static_cast<size_t>(at[i] * columns + c)] +=
          updates[i * static_cast<size_t>(columns) + static_cast<size_t>(c)];
    }
  }
  const Tensor b = zero ? zeros({rows, columns}, DType::f32, &d) : Tensor::from_vector(base, {rows, columns}, &d);
  const Tensor sums =
      index_add(b, Tensor::from_vector(at, {count}, &d), Tensor::from_vector(updates, {count, columns}, &d));
  EXPECT_EQ(sums.to_vector<float>(), want) << rows << " x " << columns << " from " << count;
}

void check_index_adds(DeviceContext& d) {
  check_index_add(d, 1000, 3, 77, true);
  check_index_add(d, 301, 33, 1200, false);
  check_index_add(d, 3, 1100, 2000, false);
}

TEST_P(Order, IndexAdd) {
  check_index_adds(device());
  check_index_add(device(), 5, 3, 4, false);  // few: compared, not sorted
  for (const int64_t schedule : {0, 1}) {
    const ScopedTuning forced({"segment_add", "", {}},
                              {{"SCHEDULE", schedule}, {"LANES", 32}, {"ROWS", 1}, {"CHUNK", 64}});
    check_index_adds(device());
  }
}

// More picks than llvmpipe lets one work item loop over, all of one row; and a schedule of nested loops that would meet
// that limit earlier.
TEST_P(Order, IndexAddOfMorePicksThanALoopMayHave) {
  const int64_t count = 70000, rows = 2;
  std::vector<int32_t> at(static_cast<size_t>(count), 1);
  at[5] = 0;
  const std::vector<float> updates(static_cast<size_t>(count), 1.0f);
  const Tensor sums =
      index_add(full({rows, 1}, 0.5, DType::f32, &device()), Tensor::from_vector(at, {count}, &device()),
                Tensor::from_vector(updates, {count, 1}, &device()));
  EXPECT_EQ(sums.to_vector<float>(), (std::vector<float>{1.5f, 69999.5f}));
}

TEST_P(Order, ScatterAddOfManyPicks) {
  const int64_t rows = 200, picks = 150, inner = 3;
  const std::vector<float> x = values(2 * 200 * 3, 9), source = values(2 * 150 * 3, 9, 5);
  std::vector<int32_t> at(2 * 150 * 3);
  for (size_t i = 0; i < at.size(); ++i) at[i] = static_cast<int32_t>(i * 31 % 210) - 5;
  std::vector<float> want = x;
  for (int64_t o = 0; o < 2; ++o) {
    for (int64_t k = 0; k < picks; ++k) {
      for (int64_t i = 0; i < inner; ++i) {
        const auto n = static_cast<size_t>((o * picks + k) * inner + i);
        if (at[n] >= 0 && at[n] < rows) want[static_cast<size_t>((o * rows + at[n]) * inner + i)] += source[n];
      }
    }
  }
  const Tensor sums = scatter_add(Tensor::from_vector(x, {2, rows, inner}, &device()), 1,
                                  Tensor::from_vector(at, {2, picks, inner}, &device()),
                                  Tensor::from_vector(source, {2, picks, inner}, &device()));
  EXPECT_EQ(sums.to_vector<float>(), want);
}

TEST_P(Order, EmbeddingGradientIsSummedByRow) {
  const int64_t rows = 900, width = 5, picks = 64;
  Tensor weight = Tensor::from_vector(values(900 * 5, 9), {rows, width}, &device());
  weight.set_requires_grad();
  std::vector<int32_t> at(64);
  for (size_t i = 0; i < at.size(); ++i) at[i] = static_cast<int32_t>(i % 20 * 40);
  const Tensor g = grad(sum(embedding(weight, Tensor::from_vector(at, {picks}, &device())) * 2.0), weight);
  const auto got = g.to_vector<float>();
  std::map<int64_t, float> count;
  for (const int32_t i : at) count[i] += 2;
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < width; ++c)
      EXPECT_EQ(got[static_cast<size_t>(r * width + c)], count.contains(r) ? count[r] : 0.0f);
  }
}

HEDDLE_DEVICE_TESTS(Order);

}  // namespace
}  // namespace heddle::tests
