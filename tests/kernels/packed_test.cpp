// packed_matmul.hk, packed_matmul_grad.hk and unpack_blocks.hk against blocks that the host unpacks.
#include <cmath>

#include "heddle/core/base/dtype.h"
#include "tests/kernels/kernel_test.h"
#include "tests/support/coverage.h"
#include "tests/support/packed_blocks.h"

namespace heddle::test {
namespace {

constexpr GgmlType types[] = {GgmlType::q4_0, GgmlType::q4_1, GgmlType::q8_0,
                              GgmlType::q4_k, GgmlType::q6_k, GgmlType::nf4};

class PackedTest : public KernelTest {
 protected:
  // The same memory as bytes and as f16.
  static void add_blocks(KernelRun& r, const std::vector<uint8_t>& bytes) {
    std::vector<double> halves;
    for (size_t i = 0; i + 1 < bytes.size(); i += 2) {
      const float value = f16_to_f32(static_cast<uint16_t>(bytes[i] | bytes[i + 1] << 8));
      halves.push_back(std::isfinite(value) ? value : 0);  // numbers, not scales
    }
    r.arrays["blocks"] = KernelArray::of(DType::u8, std::vector<double>(bytes.begin(), bytes.end()));
    r.arrays["scales"] = KernelArray::of(DType::f16, halves);
  }

  // x W^T, or with the gradient's body x W.
  void multiply(GgmlType type, const Bindings& tunables, int64_t m, int64_t n, int64_t k, bool gradient = false) {
    const int64_t depth = gradient ? n : k, columns = gradient ? k : n;
    const GgmlBlock& block = block_of(type);
    const size_t front = 16;  // bytes before the first row
    std::vector<uint8_t> bytes = random_blocks(type, n * k, static_cast<uint32_t>(n));
    std::vector<float> w(static_cast<size_t>(n * k));
    dequantise(type, bytes, w);
    bytes.insert(bytes.begin(), front, 255);
    std::vector<double> x;
    for (int64_t i = 0; i < 3 + m * depth; ++i) x.push_back(static_cast<double>(i * 7 % 31 - 15) / 8);
    KernelRun r;
    r.arrays["lhs"] = KernelArray::of(DType::f32, x);
    add_blocks(r, bytes);
    r.arrays["dst"] = KernelArray::of(DType::f32, std::vector<double>(static_cast<size_t>(m * columns), 77));
    r.constants = {{"M", double(m)}, {"N", double(n)}, {"K", double(k)}, {"X_OFF", 3}, {"BLOCKS_OFF", double(front)}};
    KernelFile::Options o;
    o.tunables = tunables;
    o.tunables["BLOCKS"] = static_cast<int64_t>(type);
    const KernelFile& file = KernelFile::builtin(gradient ? "packed_matmul_grad" : "packed_matmul");
    const std::vector<double> found = run(file, o, r).arrays.at("dst").values();
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < columns; ++j) {
        double sum = 0, size = 0;
        for (int64_t d = 0; d < depth; ++d) {
          const double term = x[static_cast<size_t>(3 + i * depth + d)] *
                              static_cast<double>(w[static_cast<size_t>(gradient ? d * k + j : j * k + d)]);
          sum += term;
          size += std::abs(term);
        }
        ASSERT_NEAR(found[static_cast<size_t>(i * columns + j)], sum, 2e-6 * (1 + size))
            << block.name << " " << m << "x" << n << "x" << k << " at " << i << ", " << j;
      }
    }
  }
};

TEST_P(PackedTest, Products) {
  const int64_t depths[] = {1, 3};
  for (const GgmlType type : types) {
    size_t number = static_cast<size_t>(type);
    for (const Bindings& schedule :
         {Bindings{{"SCHEDULE", 0}, {"LANES", 8}, {"MR", 2}, {"NR", 1}},
          Bindings{{"SCHEDULE", 0}, {"LANES", 32}, {"MR", 1}, {"NR", 4}},
          Bindings{{"SCHEDULE", 1}, {"MR", 1}, {"NR", 16}}, Bindings{{"SCHEDULE", 1}, {"MR", 4}, {"NR", 4}},
          Bindings{{"SCHEDULE", 2}, {"MR", 2}, {"MB", 2}, {"NR", 32}, {"KS", 2}, {"VW", 4}},
          Bindings{{"SCHEDULE", 3}, {"LANES", 64}, {"MR", 1}, {"NR", 64}},
          Bindings{{"SCHEDULE", 3}, {"LANES", 64}, {"MR", 4}, {"NR", 64}}}) {
      if (!tests::takes_case(GetParam(), "", ++number)) continue;  // each type and each schedule, not each with each
      for (const int64_t blocks : depths) {
        const int64_t k = blocks * block_of(type).elements;
        multiply(type, schedule, 1, 1, k);
        multiply(type, schedule, 3, 37, k);
        multiply(type, schedule, 5, 16, k);
        if (schedule.at("SCHEDULE") == 3) multiply(type, schedule, 35, 131, k);
      }
    }
  }
}

TEST_P(PackedTest, Gradients) {
  for (const GgmlType type : types) {
    size_t number = static_cast<size_t>(type);
    for (const Bindings& schedule :
         {Bindings{{"SCHEDULE", 0}, {"LANES", 8}, {"MR", 2}}, Bindings{{"SCHEDULE", 0}, {"LANES", 64}, {"MR", 1}},
          Bindings{{"SCHEDULE", 1}, {"MR", 1}, {"MB", 1}, {"NB", 16}, {"NS", 2}},
          Bindings{{"SCHEDULE", 1}, {"MR", 4}, {"MB", 2}, {"NB", 32}, {"NS", 4}},
          Bindings{{"SCHEDULE", 2}, {"LANES", 64}, {"MR", 1}}, Bindings{{"SCHEDULE", 2}, {"LANES", 64}, {"MR", 2}}}) {
      if (!tests::takes_case(GetParam(), "", ++number)) continue;
      for (const int64_t blocks : {1, 3}) {
        const int64_t k = blocks * block_of(type).elements;
        multiply(type, schedule, 1, 1, k, true);
        multiply(type, schedule, 3, 37, k, true);
        multiply(type, schedule, 13, 70, k, true);
      }
    }
  }
}

TEST_P(PackedTest, Elements) {
  for (const GgmlType type : types) {
    for (const Bindings& tunables : {Bindings{{"LANES", 1}, {"COUNT", 16}}, Bindings{{"LANES", 32}, {"COUNT", 1}}}) {
      const int64_t count = 3 * block_of(type).elements;
      const std::vector<uint8_t> bytes = random_blocks(type, count, 9);
      std::vector<float> want(static_cast<size_t>(count));
      dequantise(type, bytes, want);
      KernelRun r;
      add_blocks(r, bytes);
      r.arrays["dst"] = KernelArray::of(DType::f32, std::vector<double>(static_cast<size_t>(count), 77));
      r.constants = {{"STRETCHES", double(count / 32)}, {"BLOCKS_OFF", 0}};
      KernelFile::Options o;
      o.tunables = tunables;
      o.tunables["BLOCKS"] = static_cast<int64_t>(type);
      const std::vector<double> found = run(KernelFile::builtin("unpack_blocks"), o, r).arrays.at("dst").values();
      for (size_t i = 0; i < want.size(); ++i)
        ASSERT_NEAR(found[i], want[i], 1e-6 * (0.01 + std::abs(want[i]))) << block_of(type).name << " at " << i;
    }
  }
}

HEDDLE_ON_DEVICES(PackedTest);

}  // namespace
}  // namespace heddle::test
