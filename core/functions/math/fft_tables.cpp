#include "heddle/core/functions/math/fft_tables.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <functional>
#include <map>
#include <numbers>
#include <tuple>
#include <vector>

#include "heddle/core/base/of_this_thread.h"
#include "heddle/core/functions/math/fft_lengths.h"

namespace heddle::build {
namespace {

using Complex = std::complex<double>;
enum class TableKind { root, twiddle, steps, half_steps, weight, chirp, spectrum, convolution };
using Key = std::tuple<const DeviceContext*, TableKind, int64_t, int64_t, bool>;

struct Tables {
  std::map<Key, Tensor> known;
  int64_t bytes = 0;
};

// exp(sign 2 pi i e / n), exact at quarter turns.
Complex root(int64_t e, int64_t n, double sign) {
  const int64_t quarter = (4 * e + n / 2) / n, rest = 4 * e - quarter * n;  // of 4 n to a turn
  const double angle = std::numbers::pi / 2 * static_cast<double>(rest) / static_cast<double>(n);
  const double c = std::cos(angle), s = std::sin(angle);
  const Complex turned[] = {{c, s}, {-s, c}, {-c, -s}, {s, -c}};
  const Complex z = turned[quarter % 4];
  return sign > 0 ? z : std::conj(z);
}

Tensor table(DeviceContext& device, TableKind kind, int64_t a, int64_t b, double sign, const Shape& shape,
             const std::function<void(std::vector<Complex>&)>& fill) {
  Tables& tables = of_this_thread<Tables>();
  const Key key{&device, kind, a, b, sign > 0};
  if (const auto at = tables.known.find(key); at != tables.known.end()) return at->second;
  const auto count = static_cast<size_t>(shape.numel() / 2);
  std::vector<Complex> values(count);
  fill(values);
  std::vector<float> planes(2 * count);
  for (size_t i = 0; i < count; ++i) {
    planes[i] = static_cast<float>(values[i].real());
    planes[count + i] = static_cast<float>(values[i].imag());
  }
  const Tensor made = Tensor::from_vector(planes, shape, &device);
  const auto bytes = static_cast<int64_t>(planes.size() * sizeof(float));
  if (bytes > most_table_bytes) return made;
  if (tables.bytes + bytes > most_table_bytes) tables = {};
  tables.bytes += bytes;
  return tables.known.emplace(key, made).first->second;
}

std::vector<Complex> chirp(int64_t n, int64_t count, double sign) {
  std::vector<Complex> values(static_cast<size_t>(count));
  for (int64_t j = 0; j < count; ++j) values[static_cast<size_t>(j)] = root(j * j % (2 * n), 2 * n, sign);
  return values;
}

// Sign -1, by the smallest factor first; n has small factors alone.
void transform(std::vector<Complex>& x) {
  const auto n = static_cast<int64_t>(x.size());
  if (n == 1) return;
  const int64_t r = smallest_factor(n), m = n / r;
  std::vector<std::vector<Complex>> parts(static_cast<size_t>(r));
  for (int64_t i = 0; i < n; ++i) parts[static_cast<size_t>(i % r)].push_back(x[static_cast<size_t>(i)]);
  for (std::vector<Complex>& part : parts) transform(part);
  std::vector<Complex> roots(x.size());
  for (int64_t e = 0; e < n; ++e) roots[static_cast<size_t>(e)] = root(e, n, -1);
  for (int64_t k = 0; k < n; ++k) {
    Complex sum = 0;
    for (int64_t j = 0; j < r; ++j)
      sum += parts[static_cast<size_t>(j)][static_cast<size_t>(k % m)] * roots[static_cast<size_t>(j * k % n)];
    x[static_cast<size_t>(k)] = sum;
  }
}

// The spectrum, of length m, of the chirp's conjugate from -(n - 1) to n - 1, modulo m.
std::vector<Complex> spectrum(int64_t n, int64_t m, double sign) {
  std::vector<Complex> values(static_cast<size_t>(m));
  const std::vector<Complex> wave = chirp(n, n, -sign);
  for (int64_t j = 0; j < n; ++j) values[static_cast<size_t>(j)] = wave[static_cast<size_t>(j)];
  for (int64_t j = 1; j < n; ++j) values[static_cast<size_t>(m - j)] = wave[static_cast<size_t>(j)];
  transform(values);
  return values;
}

// What joins the four steps, and the roots of both sides, from place `at` on.
void steps(std::vector<Complex>& values, size_t at, int64_t tall, int64_t wide, double sign) {
  for (int64_t j = 0; j < tall; ++j) {
    for (int64_t k = 0; k < wide; ++k) values[at++] = root(j * k, tall * wide, sign);
  }
  for (int64_t e = 0; e < tall; ++e) values[at++] = root(e, tall, sign);
  for (int64_t e = 0; e < wide; ++e) values[at++] = root(e, wide, sign);
}

}  // namespace

Tensor root_table(DeviceContext& device, int64_t n, int64_t count, double sign) {
  return table(device, TableKind::root, n, count, sign, Shape{2, count}, [&](std::vector<Complex>& values) {
    for (int64_t e = 0; e < count; ++e) values[static_cast<size_t>(e)] = root(e, n, sign);
  });
}

Tensor twiddle_table(DeviceContext& device, int64_t rows, int64_t columns, double sign) {
  return table(device, TableKind::twiddle, rows, columns, sign, Shape{2, rows, columns},
               [&](std::vector<Complex>& values) {
                 for (int64_t j = 0; j < rows; ++j) {
                   for (int64_t k = 0; k < columns; ++k)
                     values[static_cast<size_t>(j * columns + k)] = root(j * k, rows * columns, sign);
                 }
               });
}

Tensor steps_table(DeviceContext& device, int64_t tall, int64_t wide, double sign, bool half) {
  const int64_t n = tall * wide, halves = half ? n / 2 + 1 : 0, count = halves + n + tall + wide;
  return table(device, half ? TableKind::half_steps : TableKind::steps, tall, wide, sign, Shape{2, count},
               [&](std::vector<Complex>& values) {
                 for (int64_t k = 0; k < halves; ++k) values[static_cast<size_t>(k)] = root(k, 2 * n, sign);
                 steps(values, static_cast<size_t>(halves), tall, wide, sign);
               });
}

Tensor convolution_table(DeviceContext& device, int64_t n, int64_t tall, int64_t wide, double sign) {
  const int64_t m = tall * wide, count = 2 * m + tall + wide;
  return table(device, TableKind::convolution, n, m, sign, Shape{2, count}, [&](std::vector<Complex>& values) {
    steps(values, 0, tall, wide, -1);
    const std::vector<Complex> wave = spectrum(n, m, sign);
    std::copy(wave.begin(), wave.end(), values.end() - m);
  });
}

Tensor half_weights(DeviceContext& device, int64_t n, int64_t count) {
  return table(device, TableKind::weight, n, count, 1, Shape{2, count}, [&](std::vector<Complex>& values) {
    for (int64_t k = 0; k < count && 2 * k <= n; ++k) values[static_cast<size_t>(k)] = k == 0 || 2 * k == n ? 1 : 2;
  });
}

Tensor chirp_table(DeviceContext& device, int64_t n, int64_t count, double sign) {
  return table(device, TableKind::chirp, n, count, sign, Shape{2, count},
               [&](std::vector<Complex>& values) { values = chirp(n, count, sign); });
}

Tensor chirp_spectrum(DeviceContext& device, int64_t n, int64_t m, double sign) {
  return table(device, TableKind::spectrum, n, m, sign, Shape{2, m},
               [&](std::vector<Complex>& values) { values = spectrum(n, m, sign); });
}

}  // namespace heddle::build
