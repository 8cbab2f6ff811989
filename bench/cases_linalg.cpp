// linalg: decompositions of batches of square matrices. fft: transforms of rows.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "bench/bench.h"
#include "heddle/core/base/error.h"
#include "heddle/core/functions/functions.h"

namespace heddle::bench {
namespace {

constexpr const char* fft_form = "ROWSxLENGTH, real:... or back:...";
constexpr const char* linalg_form = "cholesky:BATCHxN, solve:..., qr:..., eigh:... or svd:...";

// Operations of the leading order for an n x n matrix (Golub and Van Loan); of the iterative ones those of reduction
// and accumulation, as LAPACK counts them.
double decomposition_flops(const std::string& kind, double n) {
  const double cube = n * n * n;
  if (kind == "cholesky") return cube / 3;
  if (kind == "solve") return 8 * cube / 3;  // n right-hand sides
  if (kind == "qr") return 8 * cube / 3;
  return kind == "eigh" ? 9 * cube : 21 * cube;
}

// X X^T / n + I: symmetric, positive definite, spread eigenvalues.
Tensor definite(const Tensor& x) {
  const auto n = static_cast<double>(x.dim(-1));
  return stop_gradient(matmul(x, transpose(x)) * (1 / n) + eye(x.dim(-1), x.dim(-1), DType::f32, &x.device()));
}

std::vector<Tensor> decompose(const std::string& kind, const Tensor& a) {
  if (kind == "cholesky") return {cholesky_ex(a).factor};
  if (kind == "solve") return {solve_ex(a, flip(a, {-1})).result};
  if (kind == "qr") {
    const QR f = qr(a);
    return {f.q, f.r};
  }
  if (kind == "eigh") {
    const Eigh f = eigh(a);
    return {f.values, f.vectors};
  }
  const SVD f = svd(a);
  return {f.u, f.s, f.vh};
}

// What the results give when they are put together again, which should be the second.
std::pair<Tensor, Tensor> rebuilt(const std::string& kind, const Tensor& a, const std::vector<Tensor>& r) {
  if (kind == "cholesky") return {matmul(r[0], transpose(r[0])), a};
  if (kind == "solve") return {matmul(a, r[0]), flip(a, {-1})};
  if (kind == "qr") return {matmul(r[0], r[1]), a};
  if (kind == "eigh") return {matmul(r[1] * unsqueeze(r[0], -2), transpose(r[1])), a};
  return {matmul(r[0] * unsqueeze(r[1], -2), r[2]), a};
}

Case parse_linalg(const std::string& name, DType dtype) {
  const size_t colon = name.find(':');
  const std::string kind = name.substr(0, colon);
  constexpr std::string_view kinds[] = {"cholesky", "solve", "qr", "eigh", "svd"};
  if (colon == std::string::npos || std::find(std::begin(kinds), std::end(kinds), kind) == std::end(kinds)) {
    throw ValueError(fmt::format("[bench] case '{}' is not of the form {}", name, linalg_form));
  }
  const std::vector<int64_t> size = parse_sizes("linalg", name.substr(colon + 1), 2, linalg_form);
  const Shape shape{size[0], size[1], size[1]};
  Case c;
  c.tensor(std::span(shape.begin(), shape.end()), dtype).tensor(std::span(shape.begin(), shape.end()), dtype);
  c.flops = static_cast<double>(size[0]) * decomposition_flops(kind, static_cast<double>(size[1]));
  c.make = [=](const Environment& env) {
    const Tensor x = random_tensor(shape, dtype, 1, env.device);
    const Tensor a = kind == "qr" || kind == "svd" ? x : definite(x);
    a.to_bytes();
    Workload w;
    w.run = [=] { return decompose(kind, a); };
    w.check = [=](const std::vector<std::vector<float>>&) {
      const auto [made, expected] = rebuilt(kind, a, decompose(kind, a));
      return difference(floats_of(made), floats_of(expected), 1e-3);
    };
    return w;
  };
  return c;
}

// Pairs to pairs, reals to half a spectrum (real:), or back (back:).
Case parse_fft(const std::string& name, DType dtype) {
  const size_t colon = name.find(':');
  const std::string kind = colon == std::string::npos ? "" : name.substr(0, colon);
  if (!kind.empty() && kind != "real" && kind != "back")
    throw ValueError(fmt::format("[bench] case '{}' is not of the form {}", name, fft_form));
  const std::vector<int64_t> size =
      parse_sizes("fft", colon == std::string::npos ? name : name.substr(colon + 1), 2, fft_form);
  const int64_t rows = size[0], n = size[1];
  const Shape pairs{rows, kind.empty() ? n : n / 2 + 1, 2}, reals{rows, n};
  const Shape in = kind == "real" ? reals : pairs, out = kind == "back" ? reals : pairs;
  Case c;
  c.tensor(std::span(in.begin(), in.end()), dtype).tensor(std::span(out.begin(), out.end()), dtype);
  c.flops =
      (kind.empty() ? 5 : 2.5) * static_cast<double>(rows) * static_cast<double>(n) * std::log2(static_cast<double>(n));
  c.bound = Bound::copy;
  c.make = [=](const Environment& env) {
    const Tensor values = random_tensor(kind.empty() ? pairs : reals, dtype, 1, env.device);
    const Tensor x = kind == "back" ? stop_gradient(rfft(values)) : values;
    x.to_bytes();
    const auto there = [=](const Tensor& t) { return kind.empty() ? fft(t) : rfft(t); };
    const auto back = [=](const Tensor& t) { return kind.empty() ? ifft(t) : irfft(t, {.n = n}); };
    Workload w;
    w.run = [=] { return std::vector<Tensor>{kind == "back" ? back(x) : there(x)}; };
    w.check = [=](const std::vector<std::vector<float>>& results) {
      const Tensor y = Tensor::from_vector(results[0], out, &x.device());
      return difference(floats_of(kind == "back" ? y : back(y)), floats_of(values), 1e-5);
    };
    return w;
  };
  return c;
}

}  // namespace

Family linalg_family() {
  std::vector<std::string> standard;
  for (const char* kind : {"cholesky", "solve", "qr", "eigh", "svd"}) {
    for (const char* size : {"1x64", "16x32", "32x64", "1x256", "1x512"})
      standard.push_back(fmt::format("{}:{}", kind, size));
  }
  return {"linalg", linalg_form, standard, {DType::f32}, {}, parse_linalg};
}
// Twelve lengths, of about 2^17 numbers each, then the same of reals: powers of two, of small primes, a large prime.
std::vector<std::string> fft_cases() {
  std::vector<std::string> cases{"18725x7",  "10923x12", "2048x64",  "1311x100", "539x243",  "512x256",
                                 "131x1000", "130x1009", "128x1024", "32x4096",  "13x10000", "2x65536"};
  for (size_t i = 0; i < 12; ++i) cases.push_back("real:" + cases[i]);
  cases.insert(cases.end(), {"back:131x1000", "64x4096", "64x1000", "64x1009", "8x65536"});
  return cases;
}

Family fft_family() { return {"fft", fft_form, fft_cases(), {DType::f32}, {}, parse_fft}; }

}  // namespace heddle::bench
