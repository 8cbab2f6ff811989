// Other libraries' prepared calls. A function is there only where its library was found (HEDDLE_PEER_ONEDNN, ...).
//
// Conventions: everything a call needs (primitives, memory objects, scratch) is made before; formats are plain
// row-major, so that no reorder is hidden outside the call (but for convolutions: see there); threads are the library's
// default, all cores. A call that the library cannot do is nullopt. Thread safety: none.
#pragma once

#include <memory>
#include <optional>

#include "bench/bench.h"

namespace heddle::bench {

// c[b] = op(a[b]) op(b[b]): row-major; op transposes where said, so a is stored (K, M) when transpose_a.
struct MatmulShape {
  int64_t batch = 1, m = 1, n = 1, k = 1;
  bool transpose_a = false, transpose_b = false;
  DType dtype = DType::f32;
};
// One pass of y = conv2d(x, w), all f32: ' ' forward (a = x, b = w), 'x' input gradient (a = gradient of y, b = w), 'w'
// weight gradient (a = x, b = gradient of y).
struct ConvShape {
  char pass = ' ';
  int64_t n = 1, c = 1, h = 1, w = 1, o = 1, kernel = 1, stride = 1, padding = 0, groups = 1;
  int64_t out_h() const { return (h + 2 * padding - kernel) / stride + 1; }
  int64_t out_w() const { return (w + 2 * padding - kernel) / stride + 1; }
};
// Element bytes as stored in the case's dtype.
using Bytes = std::shared_ptr<const std::vector<uint8_t>>;
Bytes random_bytes(int64_t count, DType dtype, uint32_t stream);
std::vector<float> floats_of(const std::vector<uint8_t>& bytes, DType dtype);

namespace onednn {
std::optional<PeerCall> matmul(const MatmulShape& shape, Bytes a, Bytes b);
// In oneDNN's own formats: inputs are reordered before, the result only when it is asked for.
std::optional<PeerCall> conv(const ConvShape& shape, Bytes a, Bytes b);
// Over the last axis of (rows, columns).
std::optional<PeerCall> softmax(int64_t rows, int64_t columns, DType dtype, Bytes x);
std::optional<PeerCall> layernorm(int64_t rows, int64_t columns, DType dtype, Bytes x, Bytes scale, Bytes shift,
                                  float eps);
}  // namespace onednn
namespace openblas {
std::optional<PeerCall> matmul(const MatmulShape& shape, Bytes a, Bytes b);
}  // namespace openblas
// CLBlast on the first OpenCL device.
namespace clblast {
std::optional<PeerCall> matmul(const MatmulShape& shape, Bytes a, Bytes b);
}  // namespace clblast
// cuBLAS on the first CUDA device; opened at run time, so it is part of every build and nullopt where it is missing.
namespace cublas {
std::optional<PeerCall> matmul(const MatmulShape& shape, Bytes a, Bytes b);
}  // namespace cublas

}  // namespace heddle::bench
