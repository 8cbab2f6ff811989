// Transforms of any length (shaders/fft_lines.hk) against sums in double precision, and their derivatives against
// differences and the products of the reference device.
#include "heddle/core/functions/math/fft_lines.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <functional>
#include <numbers>

#include "heddle/autograd/autograd.h"
#include "heddle/autograd/transforms.h"
#include "heddle/autograd/vmap.h"
#include "heddle/core/device/context.h"
#include "heddle/core/functions/functions.h"
#include "heddle/core/functions/math/fft_lengths.h"
#include "tests/support/device_test.h"
#include "tests/support/noise.h"

namespace heddle::tests {
namespace {

using Complex = std::complex<double>;
using test::noise;
using Values = std::vector<double>;

Tensor on(const Values& values, const Shape& shape, DeviceContext& where) {
  return Tensor::from_vector(std::vector<float>(values.begin(), values.end()), shape, &where);
}

// Errors of a transform grow with its passes: against the largest result.
double tolerance(int64_t n) { return 1e-7 * (3 + std::log2(static_cast<double>(n))); }

// exp(sign 2 pi i e / n) for e < n.
std::vector<Complex> roots(int64_t n, double sign) {
  std::vector<Complex> made;
  for (int64_t e = 0; e < n; ++e)
    made.push_back(std::polar(1.0, sign * 2 * std::numbers::pi * static_cast<double>(e) / static_cast<double>(n)));
  return made;
}

// sum_k x[k] exp(sign 2 pi i j k / n)
Complex sum_at(const std::vector<Complex>& x, const std::vector<Complex>& w, int64_t j) {
  Complex sum = 0;
  int64_t e = 0;
  for (const Complex& v : x) {
    sum += v * w[static_cast<size_t>(e)];
    e += j;
    if (e >= static_cast<int64_t>(w.size())) e -= static_cast<int64_t>(w.size());
  }
  return sum;
}

// About 40 places of a result of n elements, the first and the last among them.
std::vector<int64_t> places(int64_t n) {
  std::vector<int64_t> chosen;
  for (int64_t j = 0; j < n; j += 1 + n / 40) chosen.push_back(j);
  chosen.push_back(n - 1);
  return chosen;
}

class Largest {
 public:
  void add(Complex got, Complex want) {
    size_ = std::max(size_, std::abs(want));
    error_ = std::max(error_, std::isnan(std::abs(got)) ? INFINITY : std::abs(got - want));
  }
  double relative() const { return error_ / std::max(size_, 1e-6); }

 private:
  double size_ = 0, error_ = 0;
};

std::vector<Complex> pairs_of(const Values& x, int64_t row, int64_t n) {
  std::vector<Complex> made;
  for (int64_t k = 0; k < n; ++k)
    made.emplace_back(x[static_cast<size_t>((row * n + k) * 2)], x[static_cast<size_t>((row * n + k) * 2 + 1)]);
  return made;
}

class FftLines : public DeviceTest {
 protected:
  void check_pairs(int64_t rows, int64_t n, double sign) {
    const Values x = noise(rows * n * 2, static_cast<uint64_t>(n));
    const Tensor z = on(x, {rows, n, 2}, device());
    const FftOptions plain{.norm = sign < 0 ? FftNorm::backward : FftNorm::forward};
    const Values y = (sign < 0 ? fft(z, plain) : ifft(z, plain)).to_doubles();
    const std::vector<Complex> w = roots(n, sign);
    Largest largest;
    for (const int64_t r : {int64_t{0}, rows - 1}) {
      const std::vector<Complex> in = pairs_of(x, r, n), out = pairs_of(y, r, n);
      for (const int64_t j : places(n)) largest.add(out[static_cast<size_t>(j)], sum_at(in, w, j));
    }
    EXPECT_LE(largest.relative(), tolerance(n)) << rows << " x " << n << ", sign " << sign;
  }

  void check_reals(int64_t rows, int64_t n) {
    const Values x = noise(rows * n, static_cast<uint64_t>(n));
    const Values y = rfft(on(x, {rows, n}, device())).to_doubles();
    const std::vector<Complex> w = roots(n, -1);
    Largest largest;
    for (const int64_t r : {int64_t{0}, rows - 1}) {
      const std::vector<Complex> in(x.begin() + r * n, x.begin() + (r + 1) * n), out = pairs_of(y, r, n / 2 + 1);
      for (const int64_t j : places(n / 2 + 1)) largest.add(out[static_cast<size_t>(j)], sum_at(in, w, j));
    }
    EXPECT_LE(largest.relative(), tolerance(n)) << rows << " x " << n << " reals";
  }

  // Imaginary parts of the first and the last element do not count.
  void check_back(int64_t rows, int64_t n) {
    const Values x = noise(rows * (n / 2 + 1) * 2, static_cast<uint64_t>(n));
    const Values y = irfft(on(x, {rows, n / 2 + 1, 2}, device()), {.n = n, .norm = FftNorm::forward}).to_doubles();
    const std::vector<Complex> w = roots(n, 1);
    Largest largest;
    for (const int64_t r : {int64_t{0}, rows - 1}) {
      std::vector<Complex> whole = pairs_of(x, r, n / 2 + 1);
      whole.resize(static_cast<size_t>(n));
      whole[0] = whole[0].real();
      for (int64_t k = 1; 2 * k <= n && n > 1; ++k) {
        Complex& v = whole[static_cast<size_t>(k)];
        if (2 * k == n) v = v.real();
        whole[static_cast<size_t>(n - k)] = std::conj(v);
      }
      for (const int64_t j : places(n)) largest.add(y[static_cast<size_t>(r * n + j)], sum_at(whole, w, j));
    }
    EXPECT_LE(largest.relative(), tolerance(n)) << rows << " x " << n << " reals back";
  }
};

TEST_P(FftLines, EveryLengthUpTo64) {
  const bool own_kernels = device().caps().machine() != Machine::cpu_loops;  // each length has one: a part of them
  for (int64_t n = 1; n <= 64; ++n) {
    if (!own_kernels || n <= 8 || n % 4 == 1) check_pairs(3, n, -1);
  }
  for (const int64_t n : {1, 7, 30, 37, 64}) check_pairs(17, n, 1);
}

// Powers, products and primes, batches below and above 16, lengths of two launches, and long ones with a large prime.
TEST_P(FftLines, LongerLengths) {
  for (const int64_t n : {97, 100, 101, 243, 343, 625, 1000, 1009, 1024, 2187, 2197, 4096, 5000})
    check_pairs(n % 2 == 0 ? 21 : 9, n, n % 3 == 0 ? 1 : -1);
  check_pairs(1, 1000, -1);
  check_pairs(1, 4099, 1);
  check_pairs(2, 65536, -1);
  check_pairs(9, 20449, -1);
}

// Rows that are matrices of four steps on CPUs: sides of 16 and more, odd ones, primes, lanes that overlap.
TEST_P(FftLines, RowsByFourSteps) {
  if (device().caps().machine() != Machine::cpu_loops) return;  // one launch by other lanes, a kernel for each length
  for (const int64_t n : {256, 289, 396, 496, 625, 768, 1000, 1155, 2048, 3000, 4900, 8192})
    check_pairs(n < 1000 ? 65 : 3, n, n % 3 == 0 ? 1 : -1);
  for (const int64_t n : {512, 578, 625, 1000, 1250, 4096, 8000}) {
    check_reals(n < 1000 ? 65 : 3, n);
    check_back(n < 1000 ? 65 : 3, n);
  }
}

// Sides are at least 16; those of an even length leave the rows' length even; lengths without two such sides have none.
TEST(FftColumns, LeaveFewLanesWithoutWork) {
  EXPECT_EQ(build::column_of(256), 16);
  EXPECT_EQ(build::column_of(1024), 32);
  EXPECT_EQ(build::column_of(65536), 256);
  EXPECT_EQ(build::column_of(1000), 25);
  EXPECT_EQ(build::column_of(496), 31);
  for (const int64_t n : {1, 255, 343, 1009, 16 * 37, 2 * 13 * 13, 1 << 20}) EXPECT_EQ(build::column_of(n), 0) << n;
  for (int64_t n = 256; n < 70000; n += 16) {
    const int64_t tall = build::column_of(n);
    if (tall == 0) continue;
    ASSERT_EQ(n % tall, 0) << n;
    ASSERT_GE(std::min(tall, n / tall), 16) << n;
    ASSERT_LE(std::max(tall, n / tall), 512) << n;
    ASSERT_EQ(n / tall % 2, 0) << n;
  }
}

// Odd radices come before even ones, so element n / 2 of reals meets no root: no rounding leaves an imaginary part.
TEST_P(FftLines, MiddleOfRealsIsReal) {
  for (const int64_t n : {10, 30, 154, 496, 1000, 1024}) {
    const Tensor x = on(noise(17 * n, 2), {17, n}, device());
    const Values y = fft(complex_pair(x, zeros_like(x))).to_doubles();
    for (int64_t r = 0; r < 17; ++r) EXPECT_EQ(y[static_cast<size_t>((r * n + n / 2) * 2 + 1)], 0) << r << " of " << n;
  }
}

TEST_P(FftLines, RealsOfAnyLength) {
  for (const int64_t n : {1, 2, 3, 4, 9, 10, 46, 97, 194, 1000, 1001, 20000}) {
    check_reals(3, n);
    check_back(n < 100 ? 19 : 2, n);
  }
}

// Other axes: many columns as they lie, few as rows; two axes; cut and padded; 16 bits.
TEST_P(FftLines, AxesAndForms) {
  const auto check = [&](const char* what, const Shape& shape, const std::function<Tensor(const Tensor&)>& f) {
    const Values x = noise(shape.numel(), 9);
    const Values got = f(on(x, shape, device())).to_doubles(),
                 want = f(on(x, shape, heddle::device("reference:0"))).to_doubles();
    ASSERT_EQ(got.size(), want.size()) << what;
    Largest largest;
    for (size_t i = 0; i < want.size(); ++i) largest.add(got[i], want[i]);
    EXPECT_LE(largest.relative(), 1e-6) << what;
  };
  check("columns", {2, 30, 21, 2}, [](const Tensor& z) { return fft(z, {.axis = 1}); });
  check("few columns", {2, 30, 3, 2}, [](const Tensor& z) { return ifft(z, {.axis = 1}); });
  check("columns of reals", {30, 21}, [](const Tensor& x) { return rfft(x, {.axis = 0}); });
  check("columns back", {16, 21, 2}, [](const Tensor& z) { return irfft(z, {.axis = 0}); });
  check("two axes", {24, 45}, [](const Tensor& x) { return rfft2(x); });
  check("padded", {5, 20, 2}, [](const Tensor& z) { return fft(z, {.n = 33}); });
  check("cut half", {5, 20, 2}, [](const Tensor& z) { return hfft(z, {.n = 24}); });
  check("turned view", {12, 5, 2}, [](const Tensor& z) { return fft(flip(transpose(z, 0, 1), {1})); });
  EXPECT_EQ(fft(zeros({0, 60, 2}, DType::f32, &device())).shape(), (Shape{0, 60, 2}));
  EXPECT_EQ(irfft(zeros({0, 31, 2}, DType::f32, &device())).shape(), (Shape{0, 60}));
  EXPECT_EQ(fft(on(noise(40, 3), {2, 10, 2}, device()).to(DType::f16)).dtype(), DType::f16);
}

// Half spectra, odd reals, a convolution, columns, two launches.
TEST_P(FftLines, Derivatives) {
  const auto half = [](const Tensor& t) {
    return sum(square(square(rfft(t) * 0.3))) + sum(irfft(rfft(t) * 0.3, {.n = t.dim(-1)}) * t);
  };
  const auto pairs = [](const Tensor& t) {
    const Tensor z = fft(complex_pair(t, t * 0.5), {.norm = FftNorm::ortho});
    return sum(square(square(z))) * 0.5;
  };
  const auto columns = [](const Tensor& t) {
    return sum(square(square(fft(complex_pair(t, t * 0.5), {.axis = 0, .norm = FftNorm::ortho}))));
  };
  const auto check = [&](const char* what, const Shape& shape, const std::function<Tensor(const Tensor&)>& loss) {
    const Values x = noise(shape.numel(), 5), direction = noise(shape.numel(), 6);
    const auto both = [&](const char* kind, const std::function<Tensor(DeviceContext&)>& f) {
      const Values got = f(device()).to_doubles(), want = f(heddle::device("reference:0")).to_doubles();
      Largest largest;
      for (size_t i = 0; i < want.size(); ++i) largest.add(got[i], want[i]);
      EXPECT_LE(largest.relative(), 2e-5) << what << ", " << kind;
    };
    both("gradient", [&](DeviceContext& d) { return grad(loss)(on(x, shape, d)); });
    both("forward mode", [&](DeviceContext& d) { return jvp(loss, on(x, shape, d), on(direction, shape, d)).second; });
    both("second order", [&](DeviceContext& d) { return hvp(loss, on(x, shape, d), on(direction, shape, d)); });
  };
  check("even", {2, 12}, half);
  check("odd", {2, 15}, half);
  check("even with a large prime", {2, 74}, half);
  check("prime", {2, 37}, pairs);
  check("prime, a convolution in one launch", {2, 131}, pairs);
  check("columns", {10, 18}, columns);
  check("two launches", {1, 272}, pairs);
}

// Both ways, of one launch and of two (on CPUs): transforms of the weights of a sum are its slopes.
TEST_P(FftLines, GradientsOfRealsAreSums) {
  for (const int64_t n : {24, 25, 257, 4368, 4455}) {
    const int64_t m = n / 2 + 1;
    const Values x = noise(2 * n, 7), z = noise(2 * m * 2, 8);
    const Tensor reals = on(x, {2, n}, device()), half = on(z, {2, m, 2}, device());
    const Values there = grad([&](const Tensor& t) { return sum(rfft(t) * half); })(reals).to_doubles();
    const FftOptions back{.n = n, .norm = FftNorm::forward};
    const Values of_half = grad([&](const Tensor& t) { return sum(irfft(t, back) * reals); })(half).to_doubles();
    Largest forward, backward;
    for (const int64_t j : places(n))
      forward.add(there[static_cast<size_t>(n + j)], sum_at(pairs_of(z, 1, m), roots(n, 1), j).real());
    for (const int64_t k : places(m)) {
      const double times = k == 0 || 2 * k == n ? 1 : 2;
      const std::vector<Complex> row(x.begin() + n, x.end());
      backward.add(pairs_of(of_half, 1, m)[static_cast<size_t>(k)], times * sum_at(row, roots(n, -1), k));
    }
    EXPECT_LE(forward.relative(), tolerance(n)) << n;
    EXPECT_LE(backward.relative(), tolerance(n)) << n << " back";
  }
}

TEST_P(FftLines, VmapAndNan) {
  const Values x = noise(18 * 4 * 20 * 2, 4);
  const Tensor z = on(x, {18, 4, 20, 2}, device());
  const auto same = [&](const Tensor& got, const Tensor& want) {
    const Values a = got.to_doubles(), b = want.to_doubles();
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 1e-5);
  };
  same(vmap([](const Tensor& t) { return fft(t); })(z), fft(z));
  same(vmap([](const Tensor& t) { return fft(t, {.axis = 0}); })(z), fft(z, {.axis = 1}));
  const auto columns = on(x, {4, 18, 20, 2}, device());
  same(vmap([](const Tensor& t) { return ifft(t, {.axis = 0}); })(columns), ifft(columns, {.axis = 1}));
  Values broken = noise(2 * 30 * 2, 7);
  broken[10] = std::nan("");
  const Values y = fft(on(broken, {2, 30, 2}, device())).to_doubles();
  EXPECT_TRUE(std::isnan(y[0]));
  for (size_t i = 60; i < 120; ++i) EXPECT_TRUE(std::isfinite(y[i]));
}

TEST_P(FftLines, CountsOfLaunches) {
  const auto launches = [&](const Tensor& x, const std::function<Tensor(const Tensor&)>& f) {
    const uint64_t before = device().counters().kernels;
    f(x).to_bytes();
    return device().counters().kernels - before;
  };
  const auto input = [&](const Shape& shape) {
    const Tensor x = on(noise(shape.numel(), 3), shape, device());
    x.to_bytes();
    return x;
  };
  const auto plain = [](const Tensor& z) { return fft(z); };
  EXPECT_EQ(launches(input({20, 60, 2}), plain), 1u);
  EXPECT_EQ(launches(input({20, 60}), [](const Tensor& x) { return rfft(x); }), 1u);
  EXPECT_EQ(launches(input({20, 31, 2}), [](const Tensor& z) { return irfft(z); }), 1u);
  EXPECT_EQ(launches(input({20, 23, 2}), [](const Tensor& z) { return irfft(z, {.n = 45}); }), 1u);
  EXPECT_EQ(launches(input({20, 6000}), [](const Tensor& x) { return rfft(x); }), 1u);
  EXPECT_EQ(launches(input({60, 20, 2}), [](const Tensor& z) { return fft(z, {.axis = 0}); }), 1u);
  EXPECT_EQ(launches(input({20, 101, 2}), plain), 2u);
  const bool cpu = device().caps().machine() == Machine::cpu_loops;
  EXPECT_EQ(launches(input({20, 257, 2}), plain), cpu ? 1u : 2u);
  const bool rows_alone = cpu && device().caps().compute_units == 1;
  EXPECT_EQ(launches(input({1, 49152, 2}), plain), rows_alone ? 1u : 2u);
}

HEDDLE_DEVICE_TESTS(FftLines);

}  // namespace
}  // namespace heddle::tests
