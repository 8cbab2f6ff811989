// matmul.hk's schedules for GPUs, forced on the CPU drivers: shared tiles in all their forms, and matrix units
// (emulated where there are none).
#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "heddle/core/dialect/printer.h"
#include "heddle/core/tiles/matmul_tiles.h"
#include "tests/kernels/matmul_case.h"

namespace heddle::test {
namespace {

class MatmulGpuTest : public MatmulCase {
 protected:
  // With loads of 16 bytes where the problem allows them, as lowering says it.
  static Bindings with_facts(Bindings tunables, const Problem& p, const Types& t) {
    tunables["A_WIDE"] = matmul_wide(t.a, {p.a.offset, p.a.sb1, p.a.sb2, p.a.rows, p.a.columns}, p.m, p.k);
    tunables["B_WIDE"] = matmul_wide(t.b, {p.b.offset, p.b.sb1, p.b.sb2, p.b.rows, p.b.columns}, p.k, p.n);
    return tunables;
  }

  void check_forced(const Bindings& tunables, const Problem& p, const Types& types) {
    check(with_facts(tunables, p, types), p, types);
  }

  // Around the tiles' edges, nothing along k, one row or column; the last ones allow loads of 16 bytes.
  void check_gpu(const Bindings& tunables, const char* form, const Types& types = {}) {
    const int64_t sizes[][3] = {{5, 7, 0}, {17, 33, 35}, {40, 1, 9}, {32, 48, 80}};
    for (const auto& s : sizes) check_forced(tunables, dense(form, s[0], s[1], s[2]), types);
    check_forced(tunables, dense(form, 16, 32, 16, 1, 2), types);
    Problem offset = dense(form, 32, 48, 32);  // one row further in memory that is one row longer
    offset.a.offset = 16;
    offset.b.offset = 3;
    offset.a_size += 16;
    offset.b_size += 3;
    check_forced(tunables, offset, types);
  }

  static Bindings tiles() {
    return {{"SCHEDULE", 1}, {"TM", 16}, {"TN", 32}, {"TK", 8}, {"RM", 2}, {"RN", 4}, {"RUN", 2}, {"PREFETCH", 1}};
  }
  // With the device's own matrix units where it has them, else emulated.
  Bindings units(int64_t element) const {
    const int64_t depth = element == 3 ? 64 : element == 2 ? 8 : 32;
    const int64_t lanes = matrix_api(caps()) == MatrixApi::none ? 1 : caps().subgroup_size;
    return {{"SCHEDULE", 5}, {"ELEMENT", element}, {"UNIT_LANES", lanes}, {"TM", 32}, {"TN", 32}, {"TK", depth},
            {"WM", 16},      {"WN", 32},           {"STAGES", 2}};
  }
  // Emulation takes every type.
  bool has_units(const char* type) const {
    return matrix_api(caps()) == MatrixApi::none ? caps().target != Target::cuda
                                                 : caps().matrix_units.find(type) != std::string::npos;
  }
  static constexpr Types halves{DType::f16, DType::f16, DType::f32}, brains{DType::bf16, DType::bf16, DType::bf16};
  static constexpr Types bytes{DType::i8, DType::i8, DType::i32, DType::i32};
};

TEST_P(MatmulGpuTest, TilesPrefetched) {
  // Both layouts of each operand.
  for (const char* form : {"NN", "TT"}) check_gpu(tiles(), form);
}

// Lanes of a subgroup in a block of both dimensions; sixteen columns a lane.
TEST_P(MatmulGpuTest, TilesWoven) {
  const Bindings woven = {{"SCHEDULE", 1}, {"TM", 16}, {"TN", 32},   {"TK", 8},       {"RM", 4},
                          {"RN", 4},       {"RUN", 4}, {"WEAVE", 1}, {"PREFETCH", 1}, {"RESIDENT", 2}};
  for (const char* form : {"NT", "TN"}) check_gpu(woven, form);
  check_gpu({{"SCHEDULE", 1}, {"TM", 16}, {"TN", 32}, {"TK", 8}, {"RM", 2}, {"RN", 16}, {"RUN", 2}}, "NN");
  EXPECT_NE(file_.refusal({{"SCHEDULE", 1}, {"TM", 16}, {"RM", 8}, {"WEAVE", 1}}), "");
}

// Schedule 2 with 16 bytes at a time, along k and along rows and columns; rows past the end of a tile.
TEST_P(MatmulGpuTest, ColumnsByQuads) {
  const Bindings narrow = {{"SCHEDULE", 2}, {"VW", 4}, {"MR", 8}, {"NV", 2}, {"MB", 2}},
                 wide = {{"SCHEDULE", 2}, {"VW", 4}, {"MR", 4}, {"NV", 1}, {"LANES", 8}};
  for (const char* form : {"NN", "NT", "TN", "TT"}) {
    check_gpu(narrow, form);
    for (const Bindings& t : {narrow, wide}) check_forced(t, dense(form, 20, 44, 12), {});
    check_forced(narrow, dense(form, 4, 4, 8), {});  // fewer columns than a lane has
  }
}

TEST_P(MatmulGpuTest, TilesOfHalves) {
  const Bindings t = {{"SCHEDULE", 1}, {"TM", 32}, {"TN", 32}, {"TK", 16},
                      {"RM", 4},       {"RN", 8},  {"RUN", 4}, {"BAND", 4}};
  check_gpu(t, "NN", halves);
  check_gpu(t, "TT", brains);
}

TEST_P(MatmulGpuTest, TilesOfBytes) {
  for (const char* form : {"NT", "TN"}) {
    for (const int64_t prefetch : {0, 1})
      check_gpu({{"SCHEDULE", 1},
                 {"TM", 16},
                 {"TN", 16},
                 {"TK", 32},
                 {"RM", 2},
                 {"RN", 2},
                 {"INT8", 1},
                 {"PREFETCH", prefetch}},
                form, bytes);
  }
}

TEST_P(MatmulGpuTest, UnitsOfHalves) {
  if (!has_units(" f16 ")) GTEST_SKIP() << "the device's matrix units take no f16";
  for (const char* form : {"NN", "TT"}) check_gpu(units(0), form, halves);
}

TEST_P(MatmulGpuTest, UnitsOfBrainFloats) {
  if (!has_units(" bf16 ")) GTEST_SKIP() << "the device's matrix units take no bf16";
  Bindings deep = units(1);
  deep["STAGES"] = 3;
  check_gpu(deep, "NN", brains);
}

TEST_P(MatmulGpuTest, UnitsOfTf32) {
  if (!has_units(" tf32 ")) GTEST_SKIP() << "the device's matrix units take no tf32";
  check_gpu(units(2), "NT");
}

TEST_P(MatmulGpuTest, UnitsOfBytes) {
  if (!has_units(" i8 ")) GTEST_SKIP() << "the device's matrix units take no i8";
  Bindings flat = units(3);
  flat["STAGES"] = 1;
  check_gpu(flat, "NT", bytes);
  check_gpu(units(3), "TN", bytes);
}

TEST_P(MatmulGpuTest, AnyStrides) {
  Problem p{7, 21, 10, 2, 3};
  p.a = {6 * 24 + 5, 7 * 24, 0, -24, 2};
  p.b = {3, 0, 1000, 44, 2};
  p.a_size = 14 * 24 + 40;
  p.b_size = 3 * 1000;
  check_forced(tiles(), p, {});
  if (has_units(" f16 ")) check_forced(units(0), p, halves);
}

// Prologues that are not zero at zero, at sizes that leave parts of tiles empty; an epilogue that writes in place.
TEST_P(MatmulGpuTest, Hooks) {
  for (const auto& [m, n, k] : {std::array<int64_t, 3>{13, 37, 21}, {32, 48, 40}}) {
    const Problem p = dense("NN", m, n, k);
    const size_t count = static_cast<size_t>(m * n);
    const std::vector<double> bias = quarters(static_cast<size_t>(n), 3), before = quarters(count, 4);
    for (const Bindings& forced : {tiles(), units(0)}) {
      if (forced.at("SCHEDULE") == 5 && !has_units(" f16 ")) continue;
      const Types types = forced.at("SCHEDULE") == 1 ? Types{} : halves;
      KernelRun r = prepare(p, types);
      r.arrays.erase("dst");
      r.arrays["bias"] = KernelArray::of(DType::f32, bias);
      r.arrays["sum"] = KernelArray::of(DType::f32, before);
      KernelFile::Options o = options(with_facts(forced, p, types), p, types);
      o.dropped_buffers = {"dst"};
      o.extra_buffers = {{"bias", DType::f32, Access::read}, {"sum", DType::f32, Access::read_write}};
      o.hooks["PROLOGUE_A"] = "(max(x, 0.0f) + 1.0f)";
      o.hooks["PROLOGUE_B"] = "(1.0f - (x))";
      o.hooks["EPILOGUE"] = "{ uint t_i = (m) * N + (n); STORE(sum, t_i, LOAD(sum, t_i) + (x) + LOAD(bias, n)); }";
      const auto want = expected(
          p, r, [](double x) { return std::max(x, 0.0) + 1; }, [](double x) { return 1 - x; },
          [&](double x, int64_t i, int64_t j) {
            return before[static_cast<size_t>(i * n + j)] + x + bias[static_cast<size_t>(j)];
          });
      EXPECT_EQ(run(file_, o, r).arrays.at("sum").values(), want) << "schedule " << forced.at("SCHEDULE");
    }
  }
}

// GROUP_SUM, GROUP_MAX and GROUP_MIN: by shuffles where the device has them (lavapipe), else through shared memory; NaN
// stays.
TEST_P(MatmulGpuTest, GroupReductions) {
  for (const uint32_t lanes : {4u, 64u}) {
    KernelSource s;
    s.name = "group_reductions";
    s.buffers = {{"x", DType::f32, Access::read}, {"y", DType::f32, Access::write}, {"z", DType::i32, Access::write}};
    s.shared = {{"scratch", "float", lanes}, {"whole", "int", lanes}};
    s.group = {lanes, 1, 1};
    s.body =
        "uint i = GROUP_ID(0) * GROUP_SIZE(0) + LOCAL_ID(0);\nfloat sum = LOAD(x, i);\nfloat high = sum;\nfloat low = "
        "sum;\n"
        "int count = CAST(int, LOCAL_ID(0));\nGROUP_SUM(sum, scratch)\nGROUP_MAX(high, scratch)\nGROUP_MIN(low, "
        "scratch)\nGROUP_SUM(count, whole)\n"
        "STORE(y, i, sum + 100.0f * high + 10000.0f * low);\nSTORE(z, i, count);\n";
    KernelRun r;
    const size_t n = 3 * lanes;
    std::vector<double> values = quarters(n, 7);
    values[2 * lanes + 1] = std::nan("");
    r.arrays = {{"x", KernelArray::of(DType::f32, values)},
                {"y", KernelArray::zeros(DType::f32, n)},
                {"z", KernelArray::zeros(DType::i32, n)}};
    r.groups = {3, 1, 1};
    const KernelOutcome got = run(s, r);
    for (size_t i = 0; i < n; ++i) {
      const auto first = values.begin() + static_cast<std::ptrdiff_t>(i / lanes * lanes);
      const auto last = first + lanes;
      EXPECT_EQ(got.arrays.at("z")[i], lanes * (lanes - 1) / 2);
      if (i >= 2 * lanes) {
        EXPECT_TRUE(std::isnan(got.arrays.at("y")[i]));
        continue;
      }
      const float want = static_cast<float>(std::accumulate(first, last, 0.0)) +
                         100.0f * static_cast<float>(*std::max_element(first, last)) +
                         10000.0f * static_cast<float>(*std::min_element(first, last));
      EXPECT_EQ(static_cast<float>(got.arrays.at("y")[i]), want) << lanes << " lanes, element " << i;
    }
  }
}

HEDDLE_ON_DEVICES(MatmulGpuTest);

TEST(MatmulWide, NeedsWholeSixteenBytes) {
  EXPECT_EQ(matmul_wide(DType::f32, {0, 0, 0, 12, 1}, 5, 12), 4);
  EXPECT_EQ(matmul_wide(DType::f16, {8, 16, 24, 1, 32}, 16, 5), 8);
  EXPECT_EQ(matmul_wide(DType::i8, {0, 0, 0, 32, 1}, 3, 32), 16);
  EXPECT_EQ(matmul_wide(DType::f32, {2, 0, 0, 12, 1}, 5, 12), 0);   // offset
  EXPECT_EQ(matmul_wide(DType::f32, {0, 0, 6, 12, 1}, 5, 12), 0);   // batch stride
  EXPECT_EQ(matmul_wide(DType::f32, {0, 0, 0, 13, 1}, 5, 12), 0);   // row stride
  EXPECT_EQ(matmul_wide(DType::f32, {0, 0, 0, 12, 1}, 5, 11), 0);   // length
  EXPECT_EQ(matmul_wide(DType::f32, {0, 0, 0, 12, 2}, 5, 12), 0);   // nothing contiguous
  EXPECT_EQ(matmul_wide(DType::f32, {0, 0, 0, -12, 1}, 5, 12), 4);  // backwards
  EXPECT_EQ(matmul_wide(DType::i64, {0, 0, 0, 12, 1}, 5, 12), 0);
}

}  // namespace
}  // namespace heddle::test
