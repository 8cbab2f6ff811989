// Products that specialize() cuts along the inner dimension: forced at odd sizes, layouts, batches and dtypes, by
// themselves where a driver needs it, with an epilogue after the sum; against plain double loops.
#include <algorithm>
#include <cmath>
#include <functional>

#include "heddle/core/contract/vendors.h"
#include "heddle/core/device/context.h"
#include "heddle/core/functions/functions.h"
#include "heddle/core/tiles/matmul_tiles.h"
#include "heddle/core/tiles/tuning.h"
#include "tests/support/device_test.h"
#include "tests/support/eighths.h"

namespace heddle::tests {
namespace {

class SplitMatmul : public DeviceTest {
 protected:
  struct Sizes {
    int64_t batch, m, n, k;
    bool transpose_a = false;
  };

  // relu(a b + bias), or a b.
  void check(const Sizes& s, bool epilogue, DType dtype = DType::f32, uint64_t kernels = 0) {
    const std::vector<float> a = eighths(s.batch * s.m * s.k, 1), b = eighths(s.batch * s.k * s.n, 2),
                             bias = eighths(s.n, 3);
    const Shape shape_a = s.transpose_a ? Shape{s.batch, s.k, s.m} : Shape{s.batch, s.m, s.k};
    Tensor ta = Tensor::from_vector(a, shape_a, &device()).to(dtype);
    const Tensor tb = Tensor::from_vector(b, {s.batch, s.k, s.n}, &device()).to(dtype),
                 row = Tensor::from_vector(bias, {s.n}, &device()).to(dtype);
    eval({ta, tb, row});
    if (s.transpose_a) ta = transpose(ta);
    const uint64_t before = device().counters().kernels;
    Tensor y = s.batch == 1 ? matmul(reshape(ta, {s.m, s.k}), reshape(tb, {s.k, s.n})) : matmul(ta, tb);
    if (epilogue) y = relu(y + row);
    const std::vector<double> got = y.to_doubles();
    if (kernels > 0) {
      EXPECT_EQ(device().counters().kernels - before, kernels);
    }
    for (int64_t i = 0; i < s.batch; ++i) {
      for (int64_t m = 0; m < s.m; ++m) {
        for (int64_t n = 0; n < s.n; ++n) {
          double sum = 0;
          for (int64_t k = 0; k < s.k; ++k) {
            const int64_t at_a = i * s.m * s.k + (s.transpose_a ? k * s.m + m : m * s.k + k);
            sum += static_cast<double>(a[static_cast<size_t>(at_a)]) * b[static_cast<size_t>((i * s.k + k) * s.n + n)];
          }
          if (epilogue) sum = std::max(0.0, sum + bias[static_cast<size_t>(n)]);
          const double rounding = dtype == DType::f32 ? 0 : dtype == DType::f16 ? 1e-3 : 8e-3;
          ASSERT_NEAR(got[static_cast<size_t>((i * s.m + m) * s.n + n)], sum, rounding * (1 + std::abs(sum)))
              << i << ", " << m << ", " << n;
        }
      }
    }
  }
};

TEST_P(SplitMatmul, Forced) {
  const ScopedTuning forced({"matmul_parts", "", {}}, {{"PARTS", 3}});
  check({1, 5, 7, 768}, true, DType::f32, 2);        // 3 divides: partial products, and their sum with what follows
  check({1, 5, 7, 767, true}, true, DType::f32, 3);  // prime: and the product of what is left over
  check({2, 3, 17, 770}, false);
  check({2, 33, 5, 769, true}, false);
  check({1, 1, 1, 1031}, true);
}

TEST_P(SplitMatmul, HalfIsRoundedOnce) {
  const ScopedTuning forced({"matmul_parts", "", {}}, {{"PARTS", 4}});
  check({1, 5, 7, 770}, false, DType::f16);
  check({1, 5, 7, 770, true}, true, DType::bf16);
}

// llvmpipe ends loops after 65535 iterations: one work item must not walk this far.
TEST_P(SplitMatmul, LongerThanADriverLoops) {
  check({1, 3, 5, 70001}, true);
  check({1, 2, 3, 65536, true}, false);
}

TEST_P(SplitMatmul, SameBitsInEveryRun) {
  std::vector<float> a = eighths(3 * 20011, 5), b = eighths(20011 * 4, 6);
  for (float& x : a) x *= 0.7193f;
  const auto run = [&] {
    return matmul(Tensor::from_vector(a, {3, 20011}, &device()), Tensor::from_vector(b, {20011, 4}, &device()))
        .to_vector<float>();
  };
  EXPECT_EQ(run(), run());
}

// Batches of one row each over one right operand are one matrix: its rows lie as far apart as the batches.
TEST_P(SplitMatmul, BatchesOfOneRow) {
  DeviceContext& reference = heddle::device("reference:0");
  const auto check_row = [&](const Shape& shape, const std::function<Tensor(const Tensor&)>& view) {
    const std::vector<float> a = eighths(shape.numel(), 4);
    const auto run = [&](DeviceContext& d) {
      const Tensor x = view(Tensor::from_vector(a, shape, &d));
      const int64_t k = x.dim(x.rank() - 1);
      return matmul(x, Tensor::from_vector(eighths(k * 3, 5), {k, 3}, &d)).to_doubles();
    };
    EXPECT_EQ(run(device()), run(reference)) << shape.str();
  };
  const auto same = [](const Tensor& x) { return x; };
  check_row({5, 1, 4}, same);
  check_row({2, 3, 1, 4}, same);
  check_row({4, 5, 1}, [](const Tensor& x) { return permute(x, {1, 2, 0}); });
  check_row({6, 1, 4}, [](const Tensor& x) { return slice(x, 0, {5, -7, -2}); });
  check_row({3, 2, 1, 4}, [](const Tensor& x) { return transpose(x, 0, 1); });
  check_row({1, 5, 1, 4}, same);
}

HEDDLE_DEVICE_TESTS(SplitMatmul);

TEST(MatmulParts, FollowDeviceAndProblem) {
  Caps gpu;
  gpu.device_class = DeviceClass::discrete_gpu;
  gpu.target = Target::cuda;
  gpu.compute_units = 132;
  Caps cpu;
  cpu.device_class = DeviceClass::cpu;
  cpu.target = Target::opencl;
  cpu.compute_units = 2;
  Caps lavapipe = cpu;
  lavapipe.target = Target::glsl;
  lavapipe.max_loop_iterations = 65535;
  const TuningOff off;
  const auto parts = [](const Caps& caps, int64_t m, int64_t n, int64_t k, int64_t batch = 1) {
    return pick_matmul_parts(caps, {m, n, k, batch});
  };
  EXPECT_GT(parts(gpu, 128, 64, 60000), 8);    // a weight gradient on few of 132 units
  EXPECT_GT(parts(gpu, 784, 128, 4096), 1);    // 100 tiles
  EXPECT_EQ(parts(gpu, 1024, 1024, 4096), 1);  // plenty of results
  EXPECT_EQ(parts(gpu, 128, 64, 300), 1);      // short
  EXPECT_EQ(parts(gpu, 64, 64, 8192, 64), 1);  // the batch is work enough
  Caps nvidia = gpu;
  nvidia.vendor_id = vendors::nvidia;
  nvidia.matrix_units = "16x16x16 f16 f32";
  EXPECT_EQ(parts(nvidia, 3072, 768, 8192), 4);   // 144 tiles: two waves of 132, of which one is nearly empty
  EXPECT_EQ(parts(nvidia, 3072, 768, 2047), 1);   // too short
  EXPECT_EQ(parts(nvidia, 4096, 4096, 4096), 1);  // 1,024 tiles fill eight waves
  EXPECT_EQ(parts(gpu, 3072, 768, 8192), 1);      // measured on NVIDIA's alone
  EXPECT_EQ(parts(cpu, 784, 128, 32), 1);
  EXPECT_EQ(parts(cpu, 64, 64, 8192), 8);
  EXPECT_EQ(parts(cpu, 64, 64, 2048), 1);  // too little work for a second launch
  EXPECT_EQ(parts(cpu, 512, 512, 8192), 1);
  EXPECT_GT(parts(cpu, 1, 1, 1 << 22), 1);
  EXPECT_GT(parts(lavapipe, 1024, 1024, 70000), 1);  // whatever the results
  for (const Caps& caps : {gpu, cpu, lavapipe}) {
    for (const int64_t m : {0, 1, 100}) {
      for (const int64_t k : {0, 1, 511, 512, 100000}) {
        const int64_t p = parts(caps, m, 3, k);
        EXPECT_TRUE(p >= 1 && p <= std::max<int64_t>(1, k)) << m << " " << k << ": " << p;
      }
    }
  }
}

}  // namespace
}  // namespace heddle::tests
