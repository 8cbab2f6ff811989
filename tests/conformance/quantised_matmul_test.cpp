// Products of quantised operands: bytes are read as they lie, scales that are constant along the inner dimension are
// applied to the sums; one kernel.
#include <algorithm>
#include <cmath>

#include "heddle/core/device/context.h"
#include "heddle/core/functions/functions.h"
#include "tests/support/device_test.h"

namespace heddle::tests {
namespace {

class QuantisedMatmul : public DeviceTest {
 protected:
  struct Operands {
    std::vector<double> x, q, s;
    Tensor tx, tq, ts;
  };

  // x (M, K) f32; q (K, N), or (N, K) when turned; s per column of the product.
  Operands make(int64_t m, int64_t n, int64_t k, DType type, bool turned) {
    Operands o;
    const auto number = [](int64_t i, int64_t step, int64_t range) { return static_cast<double>(i * step % range); };
    std::vector<float> x, s;
    std::vector<uint8_t> q;
    for (int64_t i = 0; i < m * k; ++i) o.x.push_back((number(i, 7, 31) - 15) / 8);
    for (int64_t i = 0; i < n * k; ++i) o.q.push_back(number(i, 37, 256) - (type == DType::i8 ? 128 : 0));
    for (int64_t i = 0; i < n; ++i) o.s.push_back(0.25 + number(i, 3, 7) / 4);
    for (const double v : o.x) x.push_back(static_cast<float>(v));
    for (const double v : o.s) s.push_back(static_cast<float>(v));
    for (const double v : o.q) q.push_back(static_cast<uint8_t>(static_cast<int>(v)));
    o.tx = Tensor::from_vector(x, {m, k}, &device());
    o.ts = Tensor::from_vector(s, {n}, &device());
    o.tq = Tensor::from_bytes(q.data(), q.size(), type, turned ? Shape{n, k} : Shape{k, n}, &device());
    eval({o.tx, o.ts, o.tq});
    return o;
  }

  void expect(const Operands& o, const Tensor& y, int64_t m, int64_t n, int64_t k, bool turned, bool activated) {
    const std::vector<double> got = y.to_doubles();
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        double sum = 0;
        for (int64_t t = 0; t < k; ++t)
          sum += o.x[static_cast<size_t>(i * k + t)] * o.q[static_cast<size_t>(turned ? j * k + t : t * n + j)];
        sum *= o.s[static_cast<size_t>(j)];
        if (activated) sum = std::max(0.0, sum);
        ASSERT_NEAR(got[static_cast<size_t>(i * n + j)], sum, 1e-5 * (1 + std::abs(sum))) << i << ", " << j;
      }
    }
  }
};

TEST_P(QuantisedMatmul, ScalePerColumnIsOneKernel) {
  for (const auto& [m, type] : {std::pair<int64_t, DType>{1, DType::i8}, {19, DType::i8}, {19, DType::u8}}) {
    const int64_t n = 37, k = 45;
    const Operands o = make(m, n, k, type, false);
    const uint64_t before = device().counters().kernels;
    const Tensor y = relu(matmul(o.tx, o.tq.to(DType::f32) * o.ts));
    expect(o, y, m, n, k, false, true);
    EXPECT_EQ(device().counters().kernels - before, 1u);
  }
}

// As weights of a linear layer lie: one row per output.
TEST_P(QuantisedMatmul, ScalePerRowOfTheTransposeIsOneKernel) {
  const int64_t m = 19, n = 37, k = 45;
  const Operands o = make(m, n, k, DType::i8, true);
  const uint64_t before = device().counters().kernels;
  const Tensor y = matmul(o.tx, transpose(o.tq.to(DType::f32) * unsqueeze(o.ts, 1)));
  expect(o, y, m, n, k, true, false);
  EXPECT_EQ(device().counters().kernels - before, 1u);
}

TEST_P(QuantisedMatmul, OneScale) {
  const int64_t m = 5, n = 37, k = 20;
  Operands o = make(m, n, k, DType::i8, false);
  const uint64_t before = device().counters().kernels;
  const Tensor y = matmul(o.tx, o.tq.to(DType::f32) * 0.5);
  o.s.assign(static_cast<size_t>(n), 0.5);
  expect(o, y, m, n, k, false, false);
  EXPECT_EQ(device().counters().kernels - before, 1u);
}

// Scales that change along the inner dimension stay where they are.
TEST_P(QuantisedMatmul, ScalePerInnerRow) {
  const int64_t m = 5, n = 13, k = 7;
  Operands o = make(m, n, k, DType::i8, false);
  const std::vector<float> scale{1, 2, 0.5, 4, 0.25, 1, 2};
  const Tensor y = matmul(o.tx, o.tq.to(DType::f32) * Tensor::from_vector(scale, {k, 1}, &device()));
  o.s.assign(static_cast<size_t>(n), 1);
  for (int64_t t = 0; t < k; ++t) {
    for (int64_t j = 0; j < n; ++j) o.q[static_cast<size_t>(t * n + j)] *= scale[static_cast<size_t>(t)];
  }
  expect(o, y, m, n, k, false, false);
}

// Bytes times bytes, summed as i32, without copies of wider operands.
TEST_P(QuantisedMatmul, BytesTimesBytesIsOneKernel) {
  for (const int64_t m : {1, 19}) {
    const int64_t n = 37, k = 300;
    const Operands o = make(m, n, k, DType::u8, false);
    std::vector<int8_t> x;
    for (int64_t i = 0; i < m * k; ++i) x.push_back(static_cast<int8_t>(i * 11 % 255 - 127));
    const Tensor tx = Tensor::from_bytes(x.data(), x.size(), DType::i8, {m, k}, &device());
    eval({tx});
    const uint64_t before = device().counters().kernels;
    const Tensor y = matmul(tx.to(DType::i32), o.tq.to(DType::i32));
    const std::vector<int32_t> got = y.to_vector<int32_t>();
    EXPECT_EQ(device().counters().kernels - before, 1u);
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        int64_t sum = 0;
        for (int64_t t = 0; t < k; ++t)
          sum += x[static_cast<size_t>(i * k + t)] * static_cast<int64_t>(o.q[static_cast<size_t>(t * n + j)]);
        ASSERT_EQ(got[static_cast<size_t>(i * n + j)], sum) << i << ", " << j;
      }
    }
  }
}

HEDDLE_DEVICE_TESTS(QuantisedMatmul);

}  // namespace
}  // namespace heddle::tests
