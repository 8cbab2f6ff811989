// matmul: [BATCH*][nn:|nt:|tn:|tt:]MxNxK. tn: the left operand is stored (K, M), as a weight gradient meets it.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "bench/peers/peers.h"
#include "heddle/core/base/error.h"
#include "heddle/core/device/context.h"
#include "heddle/core/functions/functions.h"

namespace heddle::bench {
namespace {

constexpr std::string_view matmul_form = "[BATCH*][nn:|nt:|tn:|tt:]MxNxK";

MatmulShape parse_shape(const std::string& text, DType dtype) {
  MatmulShape s;
  s.dtype = dtype;
  std::string rest = text;
  if (const size_t star = rest.find('*'); star != std::string::npos) {
    s.batch = parse_sizes("matmul", rest.substr(0, star), 1, matmul_form)[0];
    rest = rest.substr(star + 1);
  }
  if (const size_t colon = rest.find(':'); colon != std::string::npos) {
    const std::string layout = rest.substr(0, colon);
    if (layout != "nn" && layout != "nt" && layout != "tn" && layout != "tt")
      throw ValueError(fmt::format("[bench] matmul case '{}' is not of the form {}", text, matmul_form));
    s.transpose_a = layout[0] == 't';
    s.transpose_b = layout[1] == 't';
    rest = rest.substr(colon + 1);
  }
  const std::vector<int64_t> sizes = parse_sizes("matmul", rest, 3, matmul_form);
  s.m = sizes[0];
  s.n = sizes[1];
  s.k = sizes[2];
  return s;
}

// Some rows of the result in double precision, from the rounded inputs.
std::string check_rows(const MatmulShape& s, const std::vector<float>& a, const std::vector<float>& b,
                       const std::vector<float>& c, double tolerance) {
  const int64_t rows[] = {0, s.m / 2, s.m - 1};
  for (const int64_t batch : {int64_t{0}, s.batch - 1}) {
    for (const int64_t m : rows) {
      for (int64_t n = 0; n < s.n; n += std::max<int64_t>(1, s.n / 64)) {
        double sum = 0;
        for (int64_t k = 0; k < s.k; ++k) {
          const int64_t at_a = batch * s.m * s.k + (s.transpose_a ? k * s.m + m : m * s.k + k);
          const int64_t at_b = batch * s.k * s.n + (s.transpose_b ? n * s.k + k : k * s.n + n);
          sum += static_cast<double>(a[static_cast<size_t>(at_a)]) * b[static_cast<size_t>(at_b)];
        }
        const float got = c[static_cast<size_t>((batch * s.m + m) * s.n + n)];
        if (!(std::abs(got - sum) <= tolerance * std::sqrt(static_cast<double>(s.k))))
          return fmt::format("({}, {}, {}) is {}, expected {}", batch, m, n, got, sum);
      }
    }
  }
  return "";
}

Workload make_workload(const MatmulShape& s, double tolerance, const Environment& env) {
  const Bytes a = random_bytes(s.batch * s.m * s.k, s.dtype, 1), b = random_bytes(s.batch * s.k * s.n, s.dtype, 2);
  const auto tensor = [&](const Bytes& bytes, int64_t rows, int64_t columns, bool transposed) {
    const int64_t first = transposed ? columns : rows, second = transposed ? rows : columns;
    const Shape shape = s.batch == 1 ? Shape{first, second} : Shape{s.batch, first, second};
    return Tensor::from_bytes(bytes->data(), static_cast<size_t>(shape.numel()), s.dtype, shape, &env.device);
  };
  const Tensor ta = tensor(a, s.m, s.k, s.transpose_a), tb = tensor(b, s.k, s.n, s.transpose_b);
  Workload w;
  // Bytes are multiplied as i32, which the kernel reads as bytes.
  const DType factor = s.dtype == DType::i8 ? DType::i32 : s.dtype;
  w.run = [=] {
    const Tensor x = ta.to(factor), y = tb.to(factor);
    return std::vector<Tensor>{matmul(s.transpose_a ? transpose(x) : x, s.transpose_b ? transpose(y) : y)};
  };
  w.check = [=](const std::vector<std::vector<float>>& results) {
    return check_rows(s, floats_of(*a, s.dtype), floats_of(*b, s.dtype), results[0], tolerance);
  };
  const auto add = [&](std::optional<PeerCall> peer) {
    if (peer) w.peers.push_back(std::move(*peer));
  };
#ifdef HEDDLE_PEER_ONEDNN
  if (env.wants("onednn")) add(onednn::matmul(s, a, b));
#endif
#ifdef HEDDLE_PEER_OPENBLAS
  if (env.wants("openblas")) add(openblas::matmul(s, a, b));
#endif
#ifdef HEDDLE_PEER_CLBLAST
  if (env.wants("clblast")) add(clblast::matmul(s, a, b));
#endif
  // On other devices it would be another machine's figure.
  if (env.wants("cublas") && env.device.caps().target == Target::cuda) add(cublas::matmul(s, a, b));
  return w;
}

Case parse_matmul(const std::string& name, DType dtype) {
  const MatmulShape s = parse_shape(name, dtype);
  Case c;
  c.flops = 2.0 * static_cast<double>(s.batch) * static_cast<double>(s.m) * static_cast<double>(s.n) *
            static_cast<double>(s.k);
  c.tensor({s.batch, s.m, s.k}, dtype)
      .tensor({s.batch, s.k, s.n}, dtype)
      .tensor({s.batch, s.m, s.n}, dtype == DType::i8 ? DType::i32 : dtype);
  // A product of a matrix and a vector reads more than it computes; one over a short inner dimension writes more.
  c.bound = s.k < 8 ? Bound::copy : std::min(s.m, s.n) < 8 ? Bound::read : Bound::compute;
  // Of values below 0.25: sums of K products have magnitude sqrt(K), rounded to the dtype.
  c.tolerance = dtype == DType::f32 || dtype == DType::i8 ? 1e-5 : dtype == DType::f16 ? 2e-3 : 1.6e-2;
  c.make = [s, tolerance = c.tolerance](const Environment& env) { return make_workload(s, tolerance, env); };
  return c;
}

}  // namespace

Family matmul_family() {
  return {"matmul",
          std::string(matmul_form),
          {"256x256x256", "512x512x512", "768x768x768", "1024x1024x1024", "768x384x128", "32x128x784"},
          {DType::f32, DType::f16, DType::bf16, DType::i8},
          {"onednn", "openblas", "clblast", "cublas"},
          parse_matmul};
}

}  // namespace heddle::bench
