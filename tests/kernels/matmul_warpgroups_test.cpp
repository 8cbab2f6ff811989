// matmul.hk's schedule 7: by wgmma on NVIDIA's 9.0 (over the executor of PTX where there is no GPU), elsewhere emulated
// in the same places of shared memory.
#include <algorithm>
#include <array>
#include <cmath>

#include "heddle/core/contract/kernel_source.h"
#include "heddle/core/tiles/matmul_tiles.h"
#include "tests/kernels/matmul_case.h"

namespace heddle::test {
namespace {

class MatmulWarpgroupsTest : public MatmulCase {
 protected:
  static constexpr Types halves{DType::f16, DType::f16, DType::f32}, brains{DType::bf16, DType::bf16, DType::bf16};

  void SetUp() override {
    MatmulCase::SetUp();
    if (caps().target == Target::cuda && caps().matrix_units.find("64xNx16") == std::string::npos)
      GTEST_SKIP() << "the device does not multiply by warpgroups";
  }

  static Bindings tiles(int64_t element, int64_t tm, int64_t tn, int64_t wgm, int64_t wgn, int64_t stages) {
    return {{"SCHEDULE", 7}, {"WARPGROUPS", 1}, {"ELEMENT", element}, {"TM", tm},        {"TN", tn},
            {"TK", 64},      {"WGM", wgm},      {"WGN", wgn},         {"STAGES", stages}};
  }
  // The least of shared memory, which lavapipe has.
  static Bindings small(int64_t element) { return tiles(element, 64, 64, 64, 64, 2); }

  // With loads of 16 bytes where the problem allows them, as lowering says it.
  static Bindings with_facts(Bindings tunables, const Problem& p, const Types& t) {
    tunables["A_WIDE"] = matmul_wide(t.a, {p.a.offset, p.a.sb1, p.a.sb2, p.a.rows, p.a.columns}, p.m, p.k);
    tunables["B_WIDE"] = matmul_wide(t.b, {p.b.offset, p.b.sb1, p.b.sb2, p.b.rows, p.b.columns}, p.k, p.n);
    return tunables;
  }
  bool fits(const Bindings& tunables, const Problem& p, const Types& types) {
    return shared_bytes(file_.instantiate(options(with_facts(tunables, p, types), p, types))) <= caps().shared_bytes;
  }
  void check_forced(const Bindings& tunables, const Problem& p, const Types& types) {
    check(with_facts(tunables, p, types), p, types);
  }
};

// Operands along k and along rows and columns, whole pieces of 16 bytes and single elements, around the tiles' edges.
TEST_P(MatmulWarpgroupsTest, Forms) {
  for (const char* form : {"NN", "NT", "TN", "TT"}) check_forced(small(0), dense(form, 72, 80, 136), halves);
  for (const char* form : {"NT", "TN"}) check_forced(small(1), dense(form, 65, 67, 131), brains);
}

TEST_P(MatmulWarpgroupsTest, NothingAlongK) {
  for (const int64_t k : {0, 1}) {
    check_forced(small(0), dense("NN", 5, 7, k), halves);
    check_forced(small(1), dense("TT", 64, 64, k), brains);
  }
  check_forced(small(0), dense("NN", 1, 66, 9), halves);
  check_forced(small(0), dense("NN", 66, 1, 9), halves);
}

TEST_P(MatmulWarpgroupsTest, BatchesAndOffsets) {
  check_forced(small(0), dense("NT", 16, 32, 72, 2, 3), halves);
  for (const int64_t offset : {8, 3}) {  // of 16 bytes, and of less
    Problem p = dense("NN", 24, 72, 64);
    p.a.offset = offset;
    p.b.offset = offset;
    p.a_size += static_cast<size_t>(offset);
    p.b_size += static_cast<size_t>(offset);
    check_forced(small(0), p, halves);
  }
  Problem strided{7, 21, 10, 2, 3};
  strided.a = {6 * 24 + 5, 7 * 24, 0, -24, 2};
  strided.b = {3, 0, 1000, 44, 2};
  strided.a_size = 14 * 24 + 40;
  strided.b_size = 3 * 1000;
  check_forced(small(1), strided, {DType::bf16, DType::bf16, DType::f32});
}

// Several warpgroups along rows and columns, two parts of 64 rows, three and four stages over six tiles along k.
TEST_P(MatmulWarpgroupsTest, SeveralWarpgroups) {
  const std::array<Bindings, 5> all = {tiles(0, 128, 64, 64, 64, 3), tiles(0, 64, 128, 64, 64, 4),
                                       tiles(0, 128, 64, 128, 64, 3), tiles(0, 64, 256, 64, 256, 3),
                                       tiles(0, 128, 128, 64, 128, 4)};
  for (const Bindings& tunables : all) {
    const Problem p = dense("NT", 136, 264, 328);
    if (!fits(tunables, p, halves)) continue;
    check_forced(tunables, p, halves);
    check_forced(tunables, dense("TN", 136, 264, 64), halves);
  }
}

// Prologues that are not zero at zero, at sizes that leave parts of tiles empty; an epilogue that writes in place.
TEST_P(MatmulWarpgroupsTest, Hooks) {
  for (const auto& [m, n, k] : {std::array<int64_t, 3>{13, 37, 21}, {72, 80, 72}}) {
    const Problem p = dense("NN", m, n, k);
    const size_t count = static_cast<size_t>(m * n);
    const std::vector<double> bias = quarters(static_cast<size_t>(n), 3), before = quarters(count, 4);
    KernelRun r = prepare(p, halves);
    r.arrays.erase("dst");
    r.arrays["bias"] = KernelArray::of(DType::f32, bias);
    r.arrays["sum"] = KernelArray::of(DType::f32, before);
    KernelFile::Options o = options(with_facts(small(0), p, halves), p, halves);
    o.dropped_buffers = {"dst"};
    o.extra_buffers = {{"bias", DType::f32, Access::read}, {"sum", DType::f32, Access::read_write}};
    o.hooks["PROLOGUE_A"] = "(max(x, 0.0f) + 1.0f)";
    o.hooks["EPILOGUE"] = "{ uint t_i = (m) * N + (n); STORE(sum, t_i, LOAD(sum, t_i) + (x) + LOAD(bias, n)); }";
    const auto want = expected(
        p, r, [](double x) { return std::max(x, 0.0) + 1; }, [](double x) { return x; },
        [&](double x, int64_t i, int64_t j) {
          return before[static_cast<size_t>(i * n + j)] + x + bias[static_cast<size_t>(j)];
        });
    EXPECT_EQ(run(file_, o, r).arrays.at("sum").values(), want);
  }
}

// A NaN spoils its row, an infinity times zero too; nothing else.
TEST_P(MatmulWarpgroupsTest, NaNAndInfinity) {
  const Problem p = dense("NT", 66, 70, 72);
  KernelRun r = prepare(p, halves);
  std::vector<double> a(p.a_size, 1.0), b(p.b_size, 0.5);
  a[3 * 72 + 5] = std::nan("");
  a[65 * 72 + 71] = INFINITY;
  b[69 * 72 + 71] = 0;
  r.arrays["lhs"] = KernelArray::of(DType::f16, a);
  r.arrays["rhs"] = KernelArray::of(DType::f16, b);
  const std::vector<double> got =
      run(file_, options(with_facts(small(0), p, halves), p, halves), r).arrays.at("dst").values();
  for (size_t m = 0; m < 66; ++m) {
    for (size_t n = 0; n < 70; ++n) {
      const double x = got[m * 70 + n];
      if (m == 3 || (m == 65 && n == 69)) {
        EXPECT_TRUE(std::isnan(x)) << m << ", " << n;
      } else {
        EXPECT_EQ(x, m == 65 ? static_cast<double>(INFINITY) : n == 69 ? 35.5 : 36) << m << ", " << n;
      }
    }
  }
}

HEDDLE_ON_DEVICES(MatmulWarpgroupsTest);

}  // namespace
}  // namespace heddle::test
