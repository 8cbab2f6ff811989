// Writes that combine, Fourier transforms, padding, special functions: bad calls, and what stored values from PyTorch
// cannot show.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "heddle/autograd/transforms.h"
#include "heddle/autograd/vmap.h"
#include "heddle/core/base/error.h"
#include "heddle/core/functions/functions.h"
#include "tests/support/reference_device.h"
#include "tests/support/value_test.h"
#include "tests/unit/reference_tensors.h"
#include "tests/unit/refused.h"

namespace heddle {
namespace {

using test::expect_refused;
using test::of;
using test::whole;
using tests::reference;

TEST(CombiningWrites, RefuseBadCalls) {
  const Tensor x = of({4, 3}), flags = of({4, 3}, DType::boolean);
  const auto sum = ScatterReduction::sum;
  expect_refused({
      {[&] {
         scatter_reduce(x, 0, whole({2, 3}), whole({2, 3}), sum);
       },
       "[scatter_reduce] the values must have x's dtype; got i32 for f32"},
      {[&] {
         scatter_reduce(x, 0, whole({2, 4}), of({2, 4}), sum);
       },
       "[scatter_reduce] ranks are equal, indices no larger than source, and than x but along axis 0; got x (4, 3)"},
      {[&] {
         scatter_reduce(x, 2, whole({2, 3}), of({2, 3}), sum);
       },
       "[scatter_reduce] axis 2"},
      {[&] {
         scatter_reduce(flags, 0, whole({2, 3}), of({2, 3}, DType::boolean), sum);
       },
       "[scatter_reduce] bool has no order or arithmetic"},
      {[&] {
         scatter_reduce(x, 0, of({2, 3}), of({2, 3}), sum);
       },
       "[scatter_reduce] indices"},
      {[&] {
         index_reduce(x, 1, whole({2}), of({2, 3}), sum);
       },
       "[index_reduce] indices are (n), source is x with n slices along axis 1; got x (4, 3), indices (2), source (2, "
       "3)"},
      {[&] {
         index_add(x, 0, whole({2, 1}), of({2, 3}));
       },
       "[index_add] indices are (n)"},
      {[&] { index_add(whole({3}), 0, whole({1}), whole({1}), 0.5); },
       "[index_add] alpha must fit the dtype; got 0.5 for i32"},
      {[&] {
         index_copy(x, 0, whole({2}), of({2, 3}, DType::f16));
       },
       "[index_copy] the values must have x's dtype; got f16 for f32"},
      {[&] { masked_scatter(x, whole({3}), x); }, "[masked_scatter] the mask is bool"},
      {[&] {
         masked_scatter(x, of({5, 4, 3}, DType::boolean), x);
       },
       "[masked_scatter] the mask broadcasts to x; got x (4, 3), mask (5, 4, 3)"},
      {[&] { masked_scatter(x, flags, of({0})); }, "[masked_scatter] source (0) has no elements to write"},
      {[&] {
         index_put(flags, {whole({1})}, of({1, 3}, DType::boolean), true);
       },
       "[index_put] bool has no addition"},
  });
}

TEST(CombiningWrites, OutsideIsLeftOutAndNaNWins) {
  const auto ints = [](std::vector<int> v) {
    return Tensor::from_vector(v, Shape{static_cast<int64_t>(v.size())}, &reference());
  };
  const Tensor x = ints({1, 1, 1});
  EXPECT_EQ(scatter_reduce(x, 0, ints({0, 3, -1}), ints({5, 6, 7}), ScatterReduction::prod).to_vector<int>(),
            (std::vector<int>{5, 1, 1}));
  EXPECT_EQ(scatter_reduce(x, 0, ints({0, 0}), ints({-3, -4}), ScatterReduction::mean).to_vector<int>(),
            (std::vector<int>{-2, 1, 1}));
  EXPECT_EQ(index_reduce(x, 0, ints({-1, -5}), ints({9, 9}), ScatterReduction::amax).to_vector<int>(),
            (std::vector<int>{1, 1, 9}));
  EXPECT_EQ(index_copy(x, 0, ints({2, 2, -3}), ints({4, 5, 6})).to_vector<int>(), (std::vector<int>{6, 1, 5}));
  const double nan = std::nan("");
  const Tensor y = Tensor::from_vector<double>({1, 2}, {2}, &reference()),
               source = Tensor::from_vector<double>({nan, 5, nan}, {3}, &reference());
  EXPECT_TRUE(std::isnan(scatter_reduce(y, 0, ints({0, 1, 0}), source, ScatterReduction::amin).to_doubles()[0]));
  EXPECT_EQ(scatter_reduce(y, 0, ints({0, 1, 0}), source, ScatterReduction::amin).to_doubles()[1], 2);
}

TEST(Fourier, RefuseBadCalls) {
  const Tensor z = of({4, 8, 2}), x = of({4, 8});
  expect_refused({
      {[&] { fft(x); },
       "[fft] a complex tensor ends in an axis of 2 (real, imaginary) behind those of the transform; got (4, 8)"},
      {[&] { fft(of({2})); }, "[fft] a complex tensor ends in an axis of 2"},
      {[&] { fft(z, {.axis = 2}); }, "[fft] axis 2"},
      {[&] { ifft(z, {.n = 0}); }, "[ifft] the length is 0"},
      {[&] {
         irfft(of({1, 2}));
       },
       "[irfft] the length is 0"},
      {[&] { rfft(of({})); }, "[rfft] a scalar has no axis to transform"},
      {[&] {
         fft2(of({8, 2}));
       },
       "[fft2] a complex tensor ends in an axis of 2"},
      {[&] {
         fftn(z, {.sizes = {2, 2}, .axes = {0}});
       },
       "[fftn] 2 sizes for 1 axes"},
      {[&] {
         fftn(z, {.axes = {0, -2}});
       },
       "[fftn] axis 0 is named twice"},
      {[&] { complex_mul(z, x); }, "[complex_mul] a complex tensor ends in an axis of 2"},
      {[&] { fftshift(x, {2}); }, "[fftshift] axis 2"},
      {[&] { fftfreq(0); }, "[fftfreq] the length is 0"},
      {[&] { hann_window(0); }, "[hann_window] the length is 0; it must be at least 1"},
      {[&] {
         stft(of({2, 2, 9}), 4);
       },
       "[stft] x is (2, 2, 9); expected (samples) or (B, samples)"},
      {[&] { stft(of({9}), 4, {.hop = 0}); }, "[stft] hop is 0"},
      {[&] { stft(of({9}), 4, {.length = 5}); }, "[stft] the window's length is 5; it must be in [1, 4]"},
      {[&] { stft(of({9}), 4, {.window = of({3})}); }, "[stft] window is (3); expected (4)"},
      {[&] { stft(of({3}), 4, {.center = false}); }, "[stft] windows of 4 samples are longer than the signal, (3)"},
      {[&] {
         istft(of({4, 3, 2}), 8);
       },
       "[istft] z is (4, 3, 2); expected (frequencies, frames, 2), perhaps behind a batch, with 5 frequencies for n = "
       "8"},
      {[&] {
         pad(x, {{0, 0}, {8, 0}}, PadMode::reflect);
       },
       "[pad] reflect by 8 needs more than so many elements along axis 1; x is (4, 8)"},
      {[&] {
         pad(x, {{5, 0}}, PadMode::circular);
       },
       "[pad] circular by 5 needs at least so many elements along axis 0"},
      {[&] {
         pad(x, {{-1, 0}}, PadMode::replicate);
       },
       "[pad] the amount -1 of axis 0 is negative"},
      {[&] {
         pad(of({0}), {{1, 0}}, PadMode::replicate);
       },
       "[pad] axis 0 of (0) has no elements to repeat"},
      {[&] {
         pad(x, {{0, 0}, {0, 0}, {1, 1}}, PadMode::replicate);
       },
       "[pad] 3 pairs of amounts for x (4, 8)"},
      {[&] { polygamma(-1, x); }, "[polygamma] n is -1; it must be in [0, 30]"},
      {[&] { multigammaln(x, 0); }, "[multigammaln] p is 0; it must be in [1, 64]"},
  });
}

TEST(Fourier, EmptyBatchesAreEmpty) {
  EXPECT_EQ(fft(of({0, 8, 2})).shape(), (Shape{0, 8, 2}));
  EXPECT_EQ(rfft(of({0, 8})).shape(), (Shape{0, 5, 2}));
  EXPECT_EQ(irfft(of({0, 5, 2})).shape(), (Shape{0, 8}));
}

class Signals : public tests::ValueTest {};

TEST_P(Signals, WindowsAndFrequencies) {
  DeviceContext* d = &device();
  const double pi = std::numbers::pi;
  std::vector<double> hann, hamming, blackman;
  for (int j = 0; j < 9; ++j) {
    hann.push_back(0.5 - 0.5 * std::cos(2 * pi * j / 9));
    hamming.push_back(0.54 - 0.46 * std::cos(2 * pi * j / 8));
    blackman.push_back(0.42 - 0.5 * std::cos(2 * pi * j / 9) + 0.08 * std::cos(4 * pi * j / 9));
  }
  expect_near(hann_window(9, true, d), hann, 1e-6);
  expect_near(hamming_window(9, false, d), hamming, 1e-6);
  expect_near(blackman_window(9, true, d), blackman, 1e-6);
  expect_near(bartlett_window(5, false, d), {0, 0.5, 1, 0.5, 0}, 1e-6);
  expect_near(bartlett_window(4, true, d), {0, 0.5, 1, 0.5}, 1e-6);
  expect_near(fftfreq(5, 0.5, d), {0, 0.4, 0.8, -0.8, -0.4}, 1e-6);
  expect_near(fftfreq(4, 1, d), {0, 0.25, -0.5, -0.25}, 1e-6);
  expect_near(rfftfreq(5, 1, d), {0, 0.2, 0.4}, 1e-6);
  expect_near(hann_window(1, true, d), {1}, 0);
}

// Against plain sums in double, at a length of two factors, one of three and a prime.
TEST_P(Signals, LongTransformsKeepTheirDigits) {
  for (const int64_t n : {4096, 5400, 1009}) {
    std::vector<float> x(static_cast<size_t>(2 * n));
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(std::sin(1.7 * static_cast<double>(i * i % 1000)));
    const std::vector<double> y = fft(Tensor::from_vector(x, Shape{n, 2}, &device())).to_doubles();
    double worst = 0, norm = 0;
    for (int64_t k = 0; k < n; k += 37) {
      double re = 0, im = 0;
      for (int64_t j = 0; j < n; ++j) {
        const double a = -2 * std::numbers::pi * static_cast<double>(j * k % n) / static_cast<double>(n),
                     c = std::cos(a), s = std::sin(a);
        const double p = x[static_cast<size_t>(2 * j)], q = x[static_cast<size_t>(2 * j + 1)];
        re += p * c - q * s;
        im += p * s + q * c;
      }
      worst = std::max(
          {worst, std::abs(re - y[static_cast<size_t>(2 * k)]), std::abs(im - y[static_cast<size_t>(2 * k + 1)])});
      norm = std::max({norm, std::abs(re), std::abs(im)});
    }
    EXPECT_LT(worst, 2e-6 * norm) << n;
  }
}

TEST_P(Signals, TransformsComposeWithVmapAndForwardMode) {
  std::vector<float> v(24);
  for (size_t i = 0; i < v.size(); ++i) v[i] = static_cast<float>(i % 7) - 3;
  const Tensor x = Tensor::from_vector(v, Shape{3, 8}, &device());
  const auto f = [](const Tensor& row) { return rfft(row); };
  expect_near(vmap(f)(x), rfft(x).to_doubles(), 1e-5);
  const auto [y, dy] = jvp(f, x, x * 2);  // linear
  expect_near(dy, (rfft(x) * 2).to_doubles(), 1e-4);
  expect_near(irfft(rfft(x)), x.to_doubles(), 1e-5);
}

HEDDLE_VALUE_TESTS(Signals);

}  // namespace
}  // namespace heddle
