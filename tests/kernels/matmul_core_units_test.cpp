// matmul.hk's schedule 8: bf16 by the matrix units of a CPU's core where kernels reach them, elsewhere emulated over
// the same tiles.
#include <algorithm>
#include <array>
#include <cmath>

#include "heddle/core/dialect/print_options.h"
#include "heddle/core/tiles/matmul_tiles.h"
#include "tests/kernels/matmul_case.h"

namespace heddle::test {
namespace {

class MatmulCoreUnitsTest : public MatmulCase {
 protected:
  static constexpr Types brains{DType::bf16, DType::bf16, DType::f32};

  static Bindings units(int64_t mb, int64_t nb, int64_t kc) {
    return {{"SCHEDULE", 8}, {"MB", mb}, {"NB", nb}, {"KC", kc}};
  }
  // The text is for lanes that are cores; other devices run one small product of it, and compile all of it
  // (compile_test.cpp).
  static bool is_for(const Caps& caps) { return caps.machine() == Machine::cpu_loops; }
  // The least of private memory.
  static Bindings small() { return units(1, 1, 64); }
};

// Operands along k and along rows and columns, around the tiles' edges, as deep as a panel and deeper.
TEST_P(MatmulCoreUnitsTest, Forms) {
  if (!is_for(caps())) GTEST_SKIP() << "a lane is no core";
  for (const char* form : {"NN", "NT", "TN", "TT"}) {
    check(small(), dense(form, 48, 32, 96), brains);
    check(small(), dense(form, 35, 49, 131), brains);
  }
  check_sizes(small(), "NN", {DType::bf16, DType::bf16, DType::bf16});
}

TEST_P(MatmulCoreUnitsTest, SeveralBlocks) {
  if (!is_for(caps())) GTEST_SKIP() << "a lane is no core";
  for (const char* form : {"NT", "TN"}) {
    check(units(2, 4, 64), dense(form, 97, 150, 70), brains);
    check(units(2, 2, 256), dense(form, 70, 65, 130), brains);
  }
}

// Negative, zero and wide strides with an offset, in a batch whose one dimension is broadcast.
TEST_P(MatmulCoreUnitsTest, AnyStrides) {
  if (!is_for(caps())) GTEST_SKIP() << "a lane is no core";
  Problem p{17, 21, 34, 2, 3};
  p.a = {16 * 72 + 5, 17 * 72, 0, -72, 2};
  p.b = {3, 0, 2000, 44, 2};
  p.a_size = 34 * 72 + 80;
  p.b_size = 3 * 2000;
  check(small(), p, brains);
}

// Prologues that are not zero at zero, of which one makes bf16 of f32; an epilogue that writes in place.
TEST_P(MatmulCoreUnitsTest, Hooks) {
  if (!is_for(caps())) GTEST_SKIP() << "a lane is no core";
  for (const char* form : {"NN", "TT"}) {
    const Problem p = dense(form, 35, 49, 67);
    const Types types{DType::f32, DType::bf16, DType::f32};
    const std::vector<double> bias = quarters(49, 3), before = quarters(35 * 49, 4);
    KernelRun r = prepare(p, types);
    r.arrays.erase("dst");
    r.arrays["bias"] = KernelArray::of(DType::f32, bias);
    r.arrays["sum"] = KernelArray::of(DType::f32, before);
    KernelFile::Options o = options(small(), p, types);
    o.dropped_buffers = {"dst"};
    o.extra_buffers = {{"bias", DType::f32, Access::read}, {"sum", DType::f32, Access::read_write}};
    o.hooks["PROLOGUE_A"] = "(max(x, 0.0f) + 1.0f)";
    o.hooks["PROLOGUE_B"] = "(-x)";
    o.hooks["EPILOGUE"] = "{ uint t_i = (m) * N + (n); STORE(sum, t_i, LOAD(sum, t_i) + (x) + LOAD(bias, n)); }";
    const auto want = expected(
        p, r, [](double x) { return std::max(x, 0.0) + 1; }, [](double x) { return -x; },
        [&](double x, int64_t i, int64_t j) {
          return before[static_cast<size_t>(i * 49 + j)] + x + bias[static_cast<size_t>(j)];
        });
    EXPECT_EQ(run(file_, o, r).arrays.at("sum").values(), want);
  }
}

// A NaN spoils its row, an infinity times zero too; nothing else, however little of a tile is there.
TEST_P(MatmulCoreUnitsTest, NaNAndInfinity) {
  const Problem p = dense("NT", 34, 37, 72);
  KernelRun r = prepare(p, brains);
  std::vector<double> a(p.a_size, 1.0), b(p.b_size, 0.5);
  a[3 * 72 + 5] = std::nan("");
  a[33 * 72 + 71] = INFINITY;
  b[36 * 72 + 71] = 0;
  r.arrays["lhs"] = KernelArray::of(DType::bf16, a);
  r.arrays["rhs"] = KernelArray::of(DType::bf16, b);
  const std::vector<double> got = run(file_, options(small(), p, brains), r).arrays.at("dst").values();
  for (size_t m = 0; m < 34; ++m) {
    for (size_t n = 0; n < 37; ++n) {
      const double x = got[m * 37 + n];
      if (m == 3 || (m == 33 && n == 36)) {
        EXPECT_TRUE(std::isnan(x)) << m << ", " << n;
      } else {
        EXPECT_EQ(x, m == 33 ? static_cast<double>(INFINITY) : n == 36 ? 35.5 : 36) << m << ", " << n;
      }
    }
  }
}

HEDDLE_ON_DEVICES(MatmulCoreUnitsTest);

int64_t schedule_of(const Caps& caps, DType a, DType b, int64_t rows) {
  MatmulProblem p{rows, 128, 128};
  p.a = p.a_value = a;
  p.b = p.b_value = b;
  p.a_k1 = p.b_n1 = true;
  return pick_matmul(caps, p).at("SCHEDULE");
}

TEST(MatmulCoreUnits, AreTakenForBf16WhereTheyAre) {
  Caps caps;
  caps.target = Target::opencl;
  ASSERT_EQ(caps.machine(), Machine::cpu_loops);
  EXPECT_NE(schedule_of(caps, DType::bf16, DType::bf16, 64), 8);
  caps.matrix_units = core_pairs_bf16;
  EXPECT_EQ(print_options(caps).core_units, CoreUnits::pairs);
  EXPECT_EQ(schedule_of(caps, DType::bf16, DType::bf16, 64), 8);
  caps.matrix_units = core_tiles_bf16;
  EXPECT_EQ(print_options(caps).core_units, CoreUnits::tiles);
  EXPECT_EQ(schedule_of(caps, DType::bf16, DType::bf16, 64), 8);
  EXPECT_NE(schedule_of(caps, DType::bf16, DType::bf16, 8), 8);
  EXPECT_NE(schedule_of(caps, DType::f16, DType::f16, 64), 8);
  EXPECT_NE(schedule_of(caps, DType::f32, DType::f32, 64), 8);
  EXPECT_NE(schedule_of(caps, DType::bf16, DType::f32, 64), 8);
}

}  // namespace
}  // namespace heddle::test
