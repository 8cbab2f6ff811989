// Transforms of powers of two, on GPUs by one launch of shaders/fft.hk, against sums in double precision and against
// the products of the reference device.
#include "heddle/core/functions/math/fft_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <functional>
#include <numbers>

#include "heddle/autograd/autograd.h"
#include "heddle/autograd/transforms.h"
#include "heddle/autograd/vmap.h"
#include "heddle/core/compile/compile.h"
#include "heddle/core/device/context.h"
#include "heddle/core/functions/functions.h"
#include "tests/support/device_test.h"
#include "tests/support/noise.h"

namespace heddle::tests {
namespace {

using Complex = std::complex<double>;
using test::noise;
using Values = std::vector<double>;

class FftRows : public DeviceTest {
 protected:
  Tensor on(const Values& values, const Shape& shape, DeviceContext& where) const {
    return Tensor::from_vector(std::vector<float>(values.begin(), values.end()), shape, &where);
  }
  Tensor random(const Shape& shape, uint64_t seed) const { return on(noise(shape.numel(), seed), shape, device()); }
  static DeviceContext& reference() { return heddle::device("reference:0"); }
};

// Halves, in double precision.
std::vector<Complex> transform(const std::vector<Complex>& x, double sign) {
  const size_t n = x.size();
  if (n == 1) return x;
  std::vector<Complex> even, odd;
  for (size_t i = 0; i < n; i += 2) {
    even.push_back(x[i]);
    odd.push_back(x[i + 1]);
  }
  even = transform(even, sign);
  odd = transform(odd, sign);
  std::vector<Complex> y(n);
  for (size_t k = 0; k < n / 2; ++k) {
    const Complex turned =
        odd[k] * std::polar(1.0, sign * 2 * std::numbers::pi * static_cast<double>(k) / static_cast<double>(n));
    y[k] = even[k] + turned;
    y[k + n / 2] = even[k] - turned;
  }
  return y;
}

// Errors of a transform are those of sums of n numbers: against the largest result.
void expect_near(const Values& got, const Values& want, double tolerance, const std::string& what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  double largest = 1e-6, error = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    largest = std::max(largest, std::abs(want[i]));
    error = std::max(error, std::abs(got[i] - want[i]));
  }
  EXPECT_LE(error, tolerance * largest) << what;
}

TEST_P(FftRows, EveryLengthBothWays) {
  for (const int64_t n : {256, 512, 4096, 16384}) {
    const Values x = noise(3 * n * 2, static_cast<uint64_t>(n));
    for (const double sign : {-1.0, 1.0}) {
      Values want;
      for (int64_t r = 0; r < 3; ++r) {
        std::vector<Complex> row;
        for (int64_t i = 0; i < n; ++i)
          row.emplace_back(x[static_cast<size_t>((r * n + i) * 2)], x[static_cast<size_t>((r * n + i) * 2 + 1)]);
        for (const Complex& v : transform(row, sign)) {
          want.push_back(v.real() / (sign > 0 ? static_cast<double>(n) : 1));
          want.push_back(v.imag() / (sign > 0 ? static_cast<double>(n) : 1));
        }
      }
      const Tensor z = on(x, {3, n, 2}, device());
      expect_near((sign < 0 ? fft(z) : ifft(z)).to_doubles(), want, 5e-7,
                  std::to_string(n) + (sign < 0 ? " forward" : " back"));
    }
  }
}

TEST_P(FftRows, OneLaunchAndTheTable) {
  if (!build::takes_fft_rows(random({1}, 1), 512)) GTEST_SKIP() << "rows of this device go by fft_lines.hk";
  const Tensor z = random({5, 512, 2}, 3);
  z.to_bytes();
  const uint64_t before = device().counters().kernels;
  fft(z).to_bytes();
  EXPECT_LE(device().counters().kernels - before, 2u);
}

// Other axes, cut and padded lengths, strided and computed inputs, reals in and out, longer lengths that are made of
// these.
TEST_P(FftRows, AllForms) {
  const auto check = [&](const char* what, const Shape& shape, const std::function<Tensor(const Tensor&)>& f) {
    const Values x = noise(shape.numel(), 9);
    expect_near(f(on(x, shape, device())).to_doubles(), f(on(x, shape, reference())).to_doubles(), 2e-6, what);
  };
  check("middle axis", {2, 256, 3, 2}, [](const Tensor& z) { return fft(z, {.axis = 1}); });
  check("padded", {2, 200, 2}, [](const Tensor& z) { return fft(z, {.n = 256}); });
  check("cut", {2, 300, 2}, [](const Tensor& z) { return ifft(z, {.n = 256, .norm = FftNorm::ortho}); });
  check("turned view", {3, 2, 256},
        [](const Tensor& z) { return fft(slice(flip(transpose(z), {1}), 0, {.start = 1})); });
  check("computed", {3, 256, 2}, [](const Tensor& z) { return exp(fft(tanh(z) * 2.0) * 0.01); });
  check("reals", {3, 256}, [](const Tensor& x) { return rfft(x); });
  check("reals back", {3, 129, 2}, [](const Tensor& z) { return irfft(z); });
  check("hermitian", {3, 120, 2}, [](const Tensor& z) { return hfft(z, {.n = 256}); });
  check("two axes", {256, 256}, [](const Tensor& x) { return rfft2(x); });
  check("three times 256", {1, 768, 2}, [](const Tensor& z) { return fft(z); });
  check("prime, as a convolution", {2, 257, 2}, [](const Tensor& z) { return fft(z); });
  EXPECT_EQ(fft(zeros({0, 256, 2}, DType::f32, &device())).shape(), (Shape{0, 256, 2}));
  const Tensor half = random({2, 256, 2}, 4).to(DType::f16);
  EXPECT_EQ(fft(half).dtype(), DType::f16);
}

TEST_P(FftRows, DerivativesAndTransforms) {
  const Values x = noise(2 * 256, 5), direction = noise(2 * 256, 6);
  const auto loss = [](const Tensor& t) { return sum(square(square(rfft(t) * 0.1))) + sum(irfft(rfft(t) * 0.3) * t); };
  const auto both = [&](const char* what, const std::function<Tensor(DeviceContext&)>& f) {
    expect_near(f(device()).to_doubles(), f(reference()).to_doubles(), 1e-5, what);
  };
  both("gradient", [&](DeviceContext& d) { return grad(loss)(on(x, {2, 256}, d)); });
  both("forward mode", [&](DeviceContext& d) {
    return jvp([](const Tensor& t) { return rfft(t); }, on(x, {2, 256}, d), on(direction, {2, 256}, d)).second;
  });
  both("second order", [&](DeviceContext& d) { return hvp(loss, on(x, {2, 256}, d), on(direction, {2, 256}, d)); });
  both("vmap", [&](DeviceContext& d) { return vmap([](const Tensor& t) { return rfft(t); })(on(x, {2, 256}, d)); });
  both("vmap of a gradient", [&](DeviceContext& d) { return vmap(grad(loss))(on(x, {2, 256}, d)); });
  const auto step = compile([](const Tensor& t) { return fft(complex_pair(t, t * 2.0)); });
  for (int i = 0; i < 3; ++i)
    expect_near(step(on(x, {2, 256}, device())).to_doubles(),
                fft(complex_pair(on(x, {2, 256}, reference()), on(x, {2, 256}, reference()) * 2.0)).to_doubles(), 1e-6,
                "compiled");
}

TEST_P(FftRows, NanStaysInItsRow) {
  Values x = noise(2 * 256 * 2, 7);
  x[10] = std::nan("");
  const Values y = fft(on(x, {2, 256, 2}, device())).to_doubles();
  for (size_t i = 0; i < 512; ++i) {
    EXPECT_TRUE(std::isnan(y[i]));
    EXPECT_TRUE(std::isfinite(y[512 + i]));
  }
}

HEDDLE_DEVICE_TESTS(FftRows);

}  // namespace
}  // namespace heddle::tests
