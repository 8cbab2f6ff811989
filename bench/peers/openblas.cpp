// OpenBLAS's sgemm.
#include <cblas.h>

#include "bench/bench.h"

namespace heddle::bench {
namespace {

class OpenBlas : public Peer {
 public:
  std::string_view name() const override { return "openblas"; }
  void matmul(int64_t m, int64_t n, int64_t k, const float* a, const float* b, float* c) override {
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, static_cast<blasint>(m), static_cast<blasint>(n),
                static_cast<blasint>(k), 1.0f, a, static_cast<blasint>(k), b, static_cast<blasint>(n), 0.0f, c,
                static_cast<blasint>(n));
  }
};

}  // namespace

std::unique_ptr<Peer> make_openblas() { return std::make_unique<OpenBlas>(); }

}  // namespace heddle::bench
