// oneDNN's sgemm.
#include <dnnl.h>

#include "bench/bench.h"
#include "core/base/error.h"

namespace heddle::bench {
namespace {

class OneDnn : public Peer {
 public:
  std::string_view name() const override { return "onednn"; }
  void matmul(int64_t m, int64_t n, int64_t k, const float* a, const float* b, float* c) override {
    if (dnnl_sgemm('N', 'N', m, n, k, 1.0f, a, k, b, n, 0.0f, c, n) != dnnl_success)
      throw DeviceError("[bench] dnnl_sgemm failed");
  }
};

}  // namespace

std::unique_ptr<Peer> make_onednn() { return std::make_unique<OneDnn>(); }

}  // namespace heddle::bench
