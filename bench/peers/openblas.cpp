// OpenBLAS's sgemm; a batch is a loop.
#include <cblas.h>

#include "bench/peers/peers.h"

namespace heddle::bench::openblas {

std::optional<PeerCall> matmul(const MatmulShape& s, Bytes a, Bytes b) {
  if (s.dtype != DType::f32) return std::nullopt;
  auto c = std::make_shared<std::vector<uint8_t>>(static_cast<size_t>(s.batch * s.m * s.n) * sizeof(float));
  const auto call = [=] {
    const auto* left = reinterpret_cast<const float*>(a->data());
    const auto* right = reinterpret_cast<const float*>(b->data());
    auto* out = reinterpret_cast<float*>(c->data());
    const auto size = [](int64_t n) { return static_cast<blasint>(n); };
    for (int64_t i = 0; i < s.batch; ++i) {
      cblas_sgemm(CblasRowMajor, s.transpose_a ? CblasTrans : CblasNoTrans, s.transpose_b ? CblasTrans : CblasNoTrans,
                  size(s.m), size(s.n), size(s.k), 1.0f, left + i * s.m * s.k, size(s.transpose_a ? s.m : s.k),
                  right + i * s.k * s.n, size(s.transpose_b ? s.k : s.n), 0.0f, out + i * s.m * s.n, size(s.n));
    }
  };
  // Its threads spin for 2^26 cycles before they sleep.
  return PeerCall{"openblas", call, [c] { return floats_of(*c, DType::f32); }, 4e-2};
}

}  // namespace heddle::bench::openblas
