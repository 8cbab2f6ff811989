// matmul_packed and unpack_blocks: every type of blocks, rows few and many, views, epilogues, transforms, refusals.
#include <cmath>
#include <functional>

#include "heddle/autograd/autograd.h"
#include "heddle/autograd/vmap.h"
#include "heddle/core/compile/compile.h"
#include "heddle/core/device/context.h"
#include "heddle/core/functions/functions.h"
#include "heddle/core/functions/linalg/packed.h"
#include "heddle/core/run/replay.h"
#include "tests/support/device_test.h"
#include "tests/support/expect_error.h"
#include "tests/support/packed_blocks.h"

namespace heddle::tests {
namespace {

constexpr GgmlType types[] = {GgmlType::q4_0, GgmlType::q4_1, GgmlType::q8_0,
                              GgmlType::q4_k, GgmlType::q6_k, GgmlType::nf4};

struct Operands {
  Tensor x, blocks;             // on a device
  std::vector<double> want;     // (M, N)
  std::vector<double> size;     // sums of absolute values
  std::vector<float> elements;  // of the blocks
};

class PackedMatmul : public DeviceTest {
 protected:
  Operands make(GgmlType type, int64_t m, int64_t n, int64_t k) {
    Operands o;
    const std::vector<uint8_t> bytes = test::random_blocks(type, n * k, static_cast<uint32_t>(m + n));
    o.elements.resize(static_cast<size_t>(n * k));
    dequantise(type, bytes, o.elements);
    std::vector<float> x;
    for (int64_t i = 0; i < m * k; ++i) x.push_back(static_cast<float>(i * 7 % 31 - 15) / 8);
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        double sum = 0, size = 0;
        for (int64_t d = 0; d < k; ++d) {
          const double term = static_cast<double>(x[static_cast<size_t>(i * k + d)]) *
                              static_cast<double>(o.elements[static_cast<size_t>(j * k + d)]);
          sum += term;
          size += std::abs(term);
        }
        o.want.push_back(sum);
        o.size.push_back(size);
      }
    }
    o.x = Tensor::from_vector(x, {m, k}, &device());
    o.blocks = Tensor::from_bytes(bytes.data(), bytes.size(), DType::u8, packed_shape({n, k}, type), &device());
    eval({o.x, o.blocks});
    return o;
  }

  template <class F>
  void expect(const Operands& o, const Tensor& y, const char* what, const F& f) {
    const std::vector<double> got = y.to_doubles();
    ASSERT_EQ(got.size(), o.want.size()) << what;
    for (size_t i = 0; i < got.size(); ++i)
      ASSERT_NEAR(got[i], f(o.want[i], i), 2e-6 * (1 + o.size[i])) << what << " at " << i;
  }
  void expect(const Operands& o, const Tensor& y, const char* what) {
    expect(o, y, what, [](double v, size_t) { return v; });
  }
};

TEST_P(PackedMatmul, FewRowsAndMany) {
  for (const GgmlType type : types) {
    const int64_t block = block_of(type).elements;
    for (const int64_t m : {1, 3, 8, 9, 70}) {
      const Operands o = make(type, m, m == 1 ? 101 : 19, (m % 3 + 1) * block);
      expect(o, matmul_packed(o.x, o.blocks, type), block_of(type).name.data());
    }
    const Operands one = make(type, 1, 1, block);
    expect(one, matmul_packed(squeeze(one.x, 0), one.blocks, type), "a vector");
    expect(one, matmul_packed(reshape(one.x, {1, 1, block}), one.blocks, type), "three axes");
  }
}

TEST_P(PackedMatmul, ElementsAreTheOracles) {
  for (const GgmlType type : types) {
    const Operands o = make(type, 1, 6, 2 * block_of(type).elements);
    const std::vector<double> got = unpack_blocks(o.blocks, type).to_doubles();
    ASSERT_EQ(got.size(), o.elements.size());
    for (size_t i = 0; i < got.size(); ++i)
      ASSERT_NEAR(got[i], o.elements[i], 1e-6 * (0.01 + std::abs(o.elements[i]))) << block_of(type).name << " " << i;
    const Tensor picked = take(o.blocks, Tensor::from_vector<int32_t>({4, 1}, {2}, &device()), 0);
    const std::vector<double> rows = unpack_blocks(picked, type).to_doubles();
    const size_t width = o.elements.size() / 6;
    for (size_t i = 0; i < width; ++i) ASSERT_NEAR(rows[i], got[4 * width + i], 1e-7);
  }
}

// The oracle rounds in double precision.
TEST_P(PackedMatmul, RoundsInputsTo8Bits) {
  for (const GgmlType type : {GgmlType::q8_0, GgmlType::q6_k}) {
    const int64_t stretch = block_of(type).elements, k = 2 * stretch;
    std::vector<float> x(static_cast<size_t>(3 * k));
    for (size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<float>(i) * 0.7F) * (i / 32 == 1 ? 0.0F : 3.0F);
    const std::vector<double> got = rounded_to_8_bits(Tensor::from_vector(x, {3, k}, &device()), type).to_doubles();
    for (size_t first = 0; first < x.size(); first += static_cast<size_t>(stretch)) {
      double most = 0;
      for (size_t i = first; i < first + static_cast<size_t>(stretch); ++i)
        most = std::max(most, std::abs(static_cast<double>(x[i])));
      for (size_t i = first; i < first + static_cast<size_t>(stretch); ++i) {
        const double whole = most > 0 ? std::nearbyint(static_cast<double>(x[i]) * 127 / most) : 0;
        const double scale_error = stretch == 32 ? 5e-4 : 1e-6;  // that of an f16
        ASSERT_NEAR(got[i], whole * most / 127, scale_error * std::abs(whole * most / 127)) << i;
      }
    }
  }
  expect_error<ShapeError>(
      [&] {
        rounded_to_8_bits(zeros({2, 33}, DType::f32, &device()), GgmlType::q8_0);
      },
      {"[rounded_to_8_bits] x is (2, 33)", "32 elements"});
}

TEST_P(PackedMatmul, ViewsAndEpilogues) {
  const GgmlType type = GgmlType::q4_1;
  const Operands o = make(type, 3, 40, 64);
  const Tensor bias = arange(0, 40, 1, DType::f32, &device());
  const auto activated = [](double v, size_t i) { return std::max(0.0, v + static_cast<double>(i % 40)); };
  expect(o, relu(matmul_packed(o.x, o.blocks, type) + bias), "epilogue", activated);
  const auto f = compile([&](const Tensor& x) { return relu(matmul_packed(x, o.blocks, type) + bias); });
  for (int i = 0; i < 3; ++i) expect(o, f(o.x), "compiled", activated);
  const Tensor columns = transpose(o.x) + zeros({64, 3}, DType::f32, &device());
  eval({columns});
  const Tensor turned = transpose(columns);
  expect(o, matmul_packed(turned, o.blocks, type), "x in columns");
  const Tensor some = slice(o.blocks, 0, {.start = 7, .stop = 40});
  const std::vector<double> got = matmul_packed(o.x, some, type).to_doubles();
  for (size_t i = 0; i < 3; ++i) {
    for (size_t j = 0; j < 33; ++j)
      ASSERT_NEAR(got[i * 33 + j], o.want[i * 40 + 7 + j], 2e-6 * (1 + o.size[i * 40 + 7 + j]));
  }
  expect(o, matmul_packed(cast(o.x, DType::f16), o.blocks, type), "x in f16");  // whose values f16 holds
}

// Blocks within a longer stretch of bytes, as in a mapped file: read where they lie, but for odd places.
TEST_P(PackedMatmul, BlocksBehindOtherBytes) {
  for (const GgmlType type : types) {
    const Operands o = make(type, 3, 19, 2 * block_of(type).elements);
    const Tensor flat = reshape(o.blocks, {o.blocks.numel()});
    for (const int64_t before : {32, 2, 1}) {
      const Tensor file = concat({zeros({before}, DType::u8, &device()), flat}, 0);
      eval({file});
      const Tensor blocks = reshape(slice(file, 0, {.start = before}), o.blocks.shape());
      expect(o, matmul_packed(o.x, blocks, type), "behind other bytes");
      Tensor y, elements;
      const auto kernels = [](Tensor& made, const std::function<Tensor()>& f) {
        return Replay::capture([&] {
                 made = f();
                 eval({made});
               })
            .kernels();
      };
      EXPECT_EQ(kernels(y, [&] { return matmul_packed(o.x, blocks, type); }), before % 2 == 0 ? 1u : 2u);
      EXPECT_EQ(kernels(elements, [&] { return unpack_blocks(blocks, type); }), before % 2 == 0 ? 1u : 2u);
      expect(o, y, "of a replay");
      EXPECT_EQ(elements.to_bytes(), unpack_blocks(o.blocks, type).to_bytes());
    }
  }
}

TEST_P(PackedMatmul, HasAGradientByX) {
  for (const GgmlType type : types) {
    const int64_t k = 2 * block_of(type).elements, n = 41;
    for (const int64_t m : {1, 2, 7, 33}) {
      const Operands o = make(type, m, n, k);
      Tensor x = o.x.detach();
      x.set_requires_grad();
      std::vector<float> weights;
      for (int64_t i = 0; i < m * n; ++i) weights.push_back(static_cast<float>(i * 5 % 23 - 11) / 8);
      backward(sum(matmul_packed(x, o.blocks, type) * Tensor::from_vector(weights, {m, n}, &device())));
      const std::vector<double> got = x.grad().to_doubles();
      for (int64_t i = 0; i < m; ++i) {
        for (int64_t d = 0; d < k; ++d) {
          double sum = 0, size = 0;
          for (int64_t j = 0; j < n; ++j) {
            const double term = static_cast<double>(weights[static_cast<size_t>(i * n + j)]) *
                                static_cast<double>(o.elements[static_cast<size_t>(j * k + d)]);
            sum += term;
            size += std::abs(term);
          }
          ASSERT_NEAR(got[static_cast<size_t>(i * k + d)], sum, 2e-6 * (1 + size))
              << block_of(type).name << " " << m << " at " << i << ", " << d;
        }
      }
    }
  }
  const GgmlType type = GgmlType::q8_0;
  const Operands o = make(type, 2, 5, 32);
  expect(o, vmap([&](const Tensor& row) { return matmul_packed(row, o.blocks, type); })(o.x), "vmap");
  // The gradient is linear too: its own is the product again.
  Tensor g = o.x.detach();
  g.set_requires_grad();
  const Tensor unit = full({2, 5}, 0.5, DType::f32, &device()).set_requires_grad();
  const Tensor dx = grad(sum(matmul_packed(g, o.blocks, type) * unit), g, {}, true);
  expect(o, grad(sum(dx * o.x), unit), "twice");
}

// A gradient reads blocks where they lie, at any number of rows: one kernel, and no buffer that W's elements fit in. On
// CPU drivers of OpenCL a product does so too.
TEST_P(PackedMatmul, GradientsUnpackNothing) {
  const int64_t n = 640, k = 512;
  const auto expect_one_kernel = [&](const char* what, const std::function<Tensor()>& f) {
    Tensor made;
    const auto run = [&] {
      made = f();
      eval({made});
    };
    EXPECT_EQ(Replay::capture(run).kernels(), 1u) << what;
    made = {};
    device().reset_peak_memory();
    const uint64_t before = device().memory().live_bytes;
    run();
    EXPECT_LT(device().memory().peak_bytes - before, static_cast<uint64_t>(n * k * 4)) << what;
  };
  for (const GgmlType type : types) {
    const std::vector<uint8_t> bytes = test::random_blocks(type, n * k, 3);
    const Tensor blocks =
        Tensor::from_bytes(bytes.data(), bytes.size(), DType::u8, packed_shape({n, k}, type), &device());
    for (const int64_t m : {1, 2, 7, 33}) {
      const Tensor g = full({m, n}, 0.25, DType::f32, &device()), x = full({m, k}, 0.25, DType::f32, &device());
      eval({blocks, g, x});
      expect_one_kernel("gradient", [&] { return packed::input_grad(g, blocks, type); });
      if (m <= 8 || device().caps().machine() == Machine::cpu_loops)
        expect_one_kernel("product", [&] { return matmul_packed(x, blocks, type); });
    }
  }
}

TEST_P(PackedMatmul, Refusals) {
  const auto blocks = [&](const Shape& shape, DType dtype = DType::u8) { return zeros(shape, dtype, &device()); };
  const Tensor x = zeros({2, 64}, DType::f32, &device());
  expect_error<DTypeError>(
      [&] {
        matmul_packed(x, blocks({3, 40}, DType::i32), GgmlType::q4_1);
      },
      {"[matmul_packed]", "u8"});
  expect_error<ShapeError>(
      [&] {
        matmul_packed(x, blocks({3, 41}), GgmlType::q4_1);
      },
      {"whole blocks of 20 bytes in Q4_1"});
  expect_error<ShapeError>([&] { matmul_packed(x, blocks({3, 20}), GgmlType::q4_1); }, {"x is (2, 64)", "32 elements"});
  expect_error<ShapeError>([&] { matmul_packed(x, blocks({40}), GgmlType::q4_1); }, {"(N, bytes of K)"});
  expect_error<ValueError>(
      [&] {
        unpack_blocks(blocks({3, 40}), GgmlType::f16);
      },
      {"[unpack_blocks] F16 has no blocks"});
  expect_error<ShapeError>([&] { packed_shape({3, 33}, GgmlType::q8_0); }, {"no whole blocks of 32"});
  expect_error<ShapeError>(
      [&] {
        packed::input_grad(x, blocks({3, 40}), GgmlType::q4_1);
      },
      {"[matmul_packed_input_grad] g is (2, 64)", "(..., N)"});
  EXPECT_EQ(matmul_packed(zeros({0, 64}, DType::f32, &device()), blocks({3, 40}), GgmlType::q4_1).shape(),
            (Shape{0, 3}));
}

HEDDLE_DEVICE_TESTS(PackedMatmul);

}  // namespace
}  // namespace heddle::tests
