// reduce.hk, scatter_add.hk, copy_rows.hk and copy.hk against plain loops.
#include <cmath>

#include "tests/kernels/kernel_test.h"

namespace heddle::test {
namespace {

class ReduceTest : public KernelTest {
 protected:
  const KernelFile& file_ = KernelFile::builtin("reduce");

  void check(const Bindings& tunables, int64_t rows, int64_t columns, int64_t offset, int64_t sr, int64_t sc,
             DType dtype = DType::f32) {
    // Every element that a stride of either sign reaches.
    const int64_t reach = offset + std::max<int64_t>(0, sr) * rows + std::max<int64_t>(0, sc) * columns + 1;
    KernelRun r;
    r.arrays["src"] = KernelArray::of(dtype, quarters(static_cast<size_t>(reach), 5));
    r.arrays["dst"] = KernelArray::of(dtype, std::vector<double>(static_cast<size_t>(rows), 77));
    r.constants = {{"R", double(rows)},
                   {"C", double(columns)},
                   {"OFFSET", double(offset)},
                   {"SR", double(sr)},
                   {"SC", double(sc)}};
    KernelFile::Options o;
    o.tunables = tunables;
    o.tunables["SC1"] = sc == 1;
    o.types = {{"T", dtype}, {"TO", dtype}};
    std::vector<double> want;
    for (int64_t i = 0; i < rows; ++i) {
      double sum = 0;
      for (int64_t j = 0; j < columns; ++j) sum += r.arrays.at("src")[static_cast<size_t>(offset + i * sr + j * sc)];
      want.push_back(sum);
    }
    EXPECT_EQ(run(file_, o, r).arrays.at("dst").values(), KernelArray::of(dtype, want).values())
        << rows << " x " << columns;
  }

  static std::vector<Bindings> schedules() {
    return {{{"SCHEDULE", 0}, {"LANES", 64}}, {{"SCHEDULE", 1}, {"LANES", 16}, {"ROWS", 4}}};
  }
};

TEST_P(ReduceTest, SumsRows) {
  for (const auto& t : schedules()) {
    const int64_t sizes[][2] = {{1, 1}, {5, 0}, {0, 5}, {3, 7}, {5, 64}, {7, 130}, {1, 5000}};
    for (const auto& s : sizes) check(t, s[0], s[1], 0, s[1], 1);
  }
}

TEST_P(ReduceTest, AnyStrides) {
  for (const auto& t : schedules()) {
    check(t, 5, 33, 3, 1, 7);         // along the first dimension of a matrix
    check(t, 5, 33, 4 * 40, -40, 1);  // rows backwards
    check(t, 5, 33, 40, 40, -1);      // columns backwards
    check(t, 5, 33, 2, 0, 1);         // one row five times
  }
}

TEST_P(ReduceTest, HalfTypes) {
  for (const auto& t : schedules()) {
    check(t, 3, 100, 0, 100, 1, DType::f16);
    check(t, 3, 100, 0, 100, 1, DType::bf16);
  }
}

// A maximum of squares, with NaN and infinity passing through as the dialect's max says.
TEST_P(ReduceTest, Hooks) {
  const double nan = std::nan("");
  for (const auto& t : schedules()) {
    KernelRun r;
    r.arrays["src"] = KernelArray::of(DType::f32, {1, -3, 2, 0.5, nan, 1, 0, -INFINITY, 4});
    r.arrays["dst"] = KernelArray::zeros(DType::f32, 3);
    r.constants = {{"R", 3}, {"C", 3}, {"OFFSET", 0}, {"SR", 3}, {"SC", 1}};
    KernelFile::Options o;
    o.tunables = t;
    o.hooks = {{"INIT", "(-INFINITY)"},
               {"COMBINE", "max(x, y)"},
               {"PROLOGUE", "((x) * (x))"},
               {"EPILOGUE", "STORE(dst, r, sqrt(x))"}};
    const auto got = run(file_, o, r).arrays.at("dst").values();
    EXPECT_EQ(got[0], 3);
    EXPECT_TRUE(std::isnan(got[1]));
    EXPECT_EQ(got[2], INFINITY);
  }
}

HEDDLE_ON_DEVICES(ReduceTest);

class ScatterAddTest : public KernelTest {
 protected:
  const KernelFile& file_ = KernelFile::builtin("scatter_add");

  void check(const Bindings& tunables, int64_t rows, int64_t columns, const std::vector<double>& indices, DType dtype,
             DType index) {
    const int64_t count = static_cast<int64_t>(indices.size());
    KernelRun r;
    // base is one row that every row starts from; upd lies transposed behind an offset of 3.
    r.arrays["base"] = KernelArray::of(dtype, quarters(static_cast<size_t>(columns) + 2, 6));
    r.arrays["idx"] = KernelArray::of(index, indices);
    r.arrays["upd"] = KernelArray::of(dtype, quarters(static_cast<size_t>(columns * count) + 3, 7));
    r.arrays["dst"] = KernelArray::of(dtype, std::vector<double>(static_cast<size_t>(rows * columns), 77));
    r.constants = {{"R", double(rows)}, {"C", double(columns)}, {"COUNT", double(count)}, {"BASE_OFF", 2},
                   {"BASE_SR", 0},      {"BASE_SC", 1},         {"IDX_OFF", 0},           {"IDX_S", 1},
                   {"UPD_OFF", 3},      {"UPD_SJ", 1},          {"UPD_SC", double(count)}};
    KernelFile::Options o;
    o.tunables = tunables;
    o.types = {{"T", dtype}, {"I", index}};
    std::vector<double> want(static_cast<size_t>(rows * columns));
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t c = 0; c < columns; ++c) {
        double x = r.arrays.at("base")[static_cast<size_t>(2 + c)];
        for (int64_t j = 0; j < count; ++j) {
          if (indices[static_cast<size_t>(j)] == static_cast<double>(i))
            x += r.arrays.at("upd")[static_cast<size_t>(3 + j + c * count)];
        }
        want[static_cast<size_t>(i * columns + c)] = x;
      }
    }
    EXPECT_EQ(run(file_, o, r).arrays.at("dst").values(), KernelArray::of(dtype, want).values())
        << rows << " x " << columns;
  }

  void check_all(DType dtype, DType index) {
    for (const Bindings& t : {Bindings{{"SCHEDULE", 0}, {"LANES", 32}}, Bindings{{"SCHEDULE", 1}, {"CHUNK", 16}}}) {
      check(t, 1, 1, {0}, dtype, index);
      check(t, 4, 3, {}, dtype, index);
      check(t, 5, 37, {4, 0, 4, 4, 2, 0, 1, 4}, dtype, index);
      check(t, 3, 33, {-1, 2, 3, 1000, -3, 2}, dtype, index);  // outside: ignored
    }
  }
};

TEST_P(ScatterAddTest, AddsInOrder) { check_all(DType::f32, DType::i32); }
TEST_P(ScatterAddTest, Types) {
  check_all(DType::f16, DType::i32);
  check_all(DType::i32, DType::i32);
  if (caps().i64) check_all(DType::bf16, DType::i64);
  if (caps().f64 && caps().i64) check_all(DType::f64, DType::i64);
}

// The order of the additions shows where they round: ((1 + 2^-24) + 2^-24) + 1 in f32 is 2, from the right it is more.
TEST_P(ScatterAddTest, OrderIsThatOfTheUpdates) {
  const double tiny = std::ldexp(1.0, -24);
  for (const Bindings& t : {Bindings{{"SCHEDULE", 0}, {"LANES", 32}}, Bindings{{"SCHEDULE", 1}, {"CHUNK", 16}}}) {
    for (const bool small_first : {false, true}) {
      KernelRun r;
      r.arrays["base"] = KernelArray::of(DType::f32, {0});
      r.arrays["idx"] = KernelArray::of(DType::i32, {0, 0, 0});
      r.arrays["upd"] = KernelArray::of(
          DType::f32, small_first ? std::vector<double>{tiny, tiny, 1} : std::vector<double>{1, tiny, tiny});
      r.arrays["dst"] = KernelArray::zeros(DType::f32, 1);
      r.constants = {{"R", 1},       {"C", 1},     {"COUNT", 3},   {"BASE_OFF", 0}, {"BASE_SR", 0}, {"BASE_SC", 1},
                     {"IDX_OFF", 0}, {"IDX_S", 1}, {"UPD_OFF", 0}, {"UPD_SJ", 1},   {"UPD_SC", 1}};
      KernelFile::Options o;
      o.tunables = t;
      EXPECT_EQ(run(file_, o, r).arrays.at("dst")[0], small_first ? 1 + 2 * tiny : 1.0);
    }
  }
}

HEDDLE_ON_DEVICES(ScatterAddTest);

class CopyRowsTest : public KernelTest {
 protected:
  // src lies as (j, second, first, element) behind an offset of 2.
  void check(const std::vector<double>& indices, int64_t whole, DType dtype = DType::f32, DType index = DType::i32) {
    constexpr int64_t first = 2, second = 3, rows = 5, inner = 7;
    const auto count = static_cast<int64_t>(indices.size());
    KernelRun r;
    r.arrays["base"] = KernelArray::of(dtype, quarters(first * second * rows * inner, 6));
    r.arrays["idx"] = KernelArray::of(index, indices);
    r.arrays["src"] = KernelArray::of(dtype, quarters(static_cast<size_t>(first * second * count * inner) + 2, 7));
    r.arrays["dst"] = whole == 1 ? KernelArray::zeros(dtype, first * second * rows * inner) : r.arrays.at("base");
    r.constants = {{"O1", first},
                   {"O2", second},
                   {"R", rows},
                   {"I", inner},
                   {"COUNT", double(count)},
                   {"SRC_OFF", 2},
                   {"SRC_S1", inner},
                   {"SRC_S2", first * inner},
                   {"SRC_SJ", first * second * inner}};
    std::vector<double> want = r.arrays.at("base").values();
    for (int64_t j = 0; j < count; ++j) {
      const double row = indices[static_cast<size_t>(j)];
      if (row < 0 || row >= rows) continue;
      for (int64_t o = 0; o < first * second; ++o) {
        for (int64_t i = 0; i < inner; ++i) {
          const int64_t from = 2 + o / second * inner + o % second * first * inner + j * first * second * inner + i;
          want[static_cast<size_t>((o * rows + static_cast<int64_t>(row)) * inner + i)] =
              r.arrays.at("src")[static_cast<size_t>(from)];
        }
      }
    }
    KernelFile::Options o;
    o.tunables = {{"WHOLE", whole}};
    o.types = {{"T", dtype}, {"K", index}};
    if (whole == 0) o.dropped_buffers = {"base"};
    if (whole == 0) r.arrays.erase("base");
    EXPECT_EQ(run(KernelFile::builtin("copy_rows"), o, r).arrays.at("dst").values(), want)
        << count << " rows, whole " << whole;
  }
};

TEST_P(CopyRowsTest, TheLastOfEqualIndicesWins) {
  for (const int64_t whole : {0, 1}) {
    check({3}, whole);
    check({4, 0, 4, 2, 4}, whole);
    check({-1, 5, 1000, 1}, whole);  // outside: ignored
    check({1, 1}, whole, DType::f16);
    if (caps().i64) check({0, 3}, whole, DType::i64, DType::i64);
  }
}

HEDDLE_ON_DEVICES(CopyRowsTest);

class CopyTest : public KernelTest {
 protected:
  const KernelFile& file_ = KernelFile::builtin("copy");

  static std::vector<Bindings> schedules() {
    return {{{"LANES", 64}, {"PER_LANE", 4}}, {{"LANES", 1}, {"PER_LANE", 256}}};
  }

  void check(const Bindings& tunables, const int64_t (&sizes)[5], int64_t offset, const int64_t (&strides)[5],
             size_t source_size, DType from = DType::f32, DType to = DType::f32) {
    KernelRun r;
    r.arrays["src"] = KernelArray::of(from, quarters(source_size, 8));
    std::vector<double> want;
    int64_t i[5];
    for (i[0] = 0; i[0] < sizes[0]; ++i[0])
      for (i[1] = 0; i[1] < sizes[1]; ++i[1])
        for (i[2] = 0; i[2] < sizes[2]; ++i[2])
          for (i[3] = 0; i[3] < sizes[3]; ++i[3])
            for (i[4] = 0; i[4] < sizes[4]; ++i[4]) {
              int64_t at = offset;
              for (int d = 0; d < 5; ++d) at += i[d] * strides[d];
              want.push_back(r.arrays.at("src")[static_cast<size_t>(at)]);
            }
    r.arrays["dst"] = KernelArray::of(to, std::vector<double>(want.size(), 1));
    r.constants = {{"COUNT", double(want.size())}, {"D1", double(sizes[1])}, {"D2", double(sizes[2])},
                   {"D3", double(sizes[3])},       {"D4", double(sizes[4])}, {"OFFSET", double(offset)}};
    for (int d = 0; d < 5; ++d) r.constants["S" + std::to_string(d)] = double(strides[d]);
    KernelFile::Options o;
    o.tunables = tunables;
    o.tunables["INNER1"] = strides[4] == 1;
    o.types = {{"T", from}, {"TO", to}};
    EXPECT_EQ(run(file_, o, r).arrays.at("dst").values(), KernelArray::of(to, want).values());
  }
};

TEST_P(CopyTest, Permutes) {
  for (const auto& t : schedules()) {
    check(t, {1, 1, 1, 1, 1}, 0, {0, 0, 0, 0, 1}, 1);
    check(t, {1, 1, 1, 1, 1000}, 7, {0, 0, 0, 0, 1}, 1007);
    check(t, {1, 1, 1, 37, 41}, 0, {0, 0, 0, 1, 37}, 37 * 41);       // transpose
    check(t, {2, 3, 4, 5, 7}, 0, {1, 2, 6, 24, 120}, 840);           // all dimensions reversed
    check(t, {2, 3, 4, 5, 7}, 839, {-420, -140, -35, -7, -1}, 840);  // flipped
    check(t, {3, 2, 1, 5, 9}, 2, {0, 60, 0, 0, 3}, 200);             // broadcast, with steps
    check(t, {0, 2, 3, 4, 5}, 0, {120, 60, 20, 5, 1}, 4);
  }
}

// More groups than one dimension of a grid takes: the launch rule folds them, and GROUP_LINEAR unfolds.
TEST_P(CopyTest, ManyGroups) {
  check({{"LANES", 1}, {"PER_LANE", 1}}, {1, 1, 1, 7, 10007}, 0, {0, 0, 0, 1, 7}, 7 * 10007);
}

TEST_P(CopyTest, EveryType) {
  std::vector<DType> types = {DType::f16, DType::bf16, DType::i8, DType::u8, DType::i32, DType::boolean};
  if (caps().f64) types.push_back(DType::f64);
  if (caps().i64) types.push_back(DType::i64);
  const Bindings t = schedules()[on_opencl() ? 1 : 0];
  for (const DType dtype : types) check(t, {1, 1, 1, 9, 31}, 0, {0, 0, 0, 1, 9}, 9 * 31, dtype, dtype);
  check(t, {1, 1, 1, 9, 31}, 0, {0, 0, 0, 1, 9}, 9 * 31, DType::f32, DType::f16);
  check(t, {1, 1, 1, 9, 31}, 0, {0, 0, 0, 1, 9}, 9 * 31, DType::i32, DType::f32);
  check(t, {1, 1, 1, 9, 31}, 0, {0, 0, 0, 1, 9}, 9 * 31, DType::f32, DType::boolean);
}

HEDDLE_ON_DEVICES(CopyTest);

}  // namespace
}  // namespace heddle::test
