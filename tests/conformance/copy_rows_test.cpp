// Rows written into a tensor where it lies: x.assign(index_copy(x, ...)) against plain loops, wherever x, its rows and
// its readers may be.
#include <algorithm>
#include <numeric>

#include "heddle/core/compile/compile.h"
#include "heddle/core/device/context.h"
#include "heddle/core/functions/functions.h"
#include "heddle/core/inspect/profile.h"
#include "tests/support/device_test.h"

namespace heddle::tests {
namespace {

using Values = std::vector<double>;
using RowIndices = std::vector<int32_t>;

class CopyRows : public DeviceTest {
 protected:
  // 0, 1, 2, ... from `start` on, stored.
  Tensor counted(const Shape& shape, double start = 0, DType dtype = DType::f32) const {
    Values all(static_cast<size_t>(shape.numel()));
    std::iota(all.begin(), all.end(), start);
    std::vector<float> data(all.begin(), all.end());
    const Tensor x = cast(Tensor::from_vector(data, shape, &device()), dtype);
    eval({x});
    return x;
  }
  Tensor indices(const RowIndices& values) const {
    return Tensor::from_vector(values, {static_cast<int64_t>(values.size())}, &device());
  }
};

// x with the rows of u (same shape, but `rows.size()` along the axis) put where `rows` says.
Values expected(Values x, const Shape& shape, int axis, const RowIndices& rows, const Values& u) {
  int64_t outer = 1, inner = 1;
  for (int d = 0; d < axis; ++d) outer *= shape[d];
  for (int d = axis + 1; d < shape.rank(); ++d) inner *= shape[d];
  const auto count = static_cast<int64_t>(rows.size()), size = shape[axis];
  for (int64_t j = 0; j < count; ++j) {
    const int64_t row = rows[static_cast<size_t>(j)] + (rows[static_cast<size_t>(j)] < 0 ? size : 0);
    if (row < 0 || row >= size) continue;
    for (int64_t o = 0; o < outer; ++o) {
      for (int64_t i = 0; i < inner; ++i)
        x[static_cast<size_t>((o * size + row) * inner + i)] = u[static_cast<size_t>((o * count + j) * inner + i)];
    }
  }
  return x;
}

TEST_P(CopyRows, AnyAxisAnyRows) {
  const Shape shape{3, 2, 7, 5};
  for (int axis = 0; axis < 4; ++axis) {
    const auto last = static_cast<int32_t>(shape[axis] - 1);
    for (const RowIndices& rows : {RowIndices{0}, {last}, {-1}, {last, 0}, {1, 1, 0, 1}, {100, 0, -100}}) {
      Tensor x = counted(shape);
      const Tensor u = counted(shape.with(axis, static_cast<int64_t>(rows.size())), 1000);
      const Values want = expected(x.to_doubles(), shape, axis, rows, u.to_doubles());
      x.assign(index_copy(x, axis, indices(rows), u));
      EXPECT_EQ(x.to_doubles(), want) << "axis " << axis << ", " << rows.size() << " rows";
    }
  }
}

// Heads of a joined projection: neither dense nor one run of rows.
TEST_P(CopyRows, RowsOfAnyView) {
  const Tensor joined = counted({2, 3, 4 * 6}, 500);
  const Tensor heads = permute(reshape(joined, {2, 3, 4, 6}), {0, 2, 1, 3});  // (2, 4, 3, 6)
  const Tensor views[] = {heads, flip(heads, {2}), flip(heads, {3}),
                          expand(slice(heads, 2, {.start = 1, .stop = 2}), heads.shape()), heads * 2.0};
  for (const Tensor& u : views) {
    Tensor x = counted({2, 4, 9, 6});
    const Values want = expected(x.to_doubles(), x.shape(), 2, {7, 0, 3}, u.to_doubles());
    x.assign(index_copy(x, 2, indices({7, 0, 3}), u));
    EXPECT_EQ(x.to_doubles(), want);
  }
}

TEST_P(CopyRows, Types) {
  for (const DType t : {DType::f16, DType::bf16, DType::i32, DType::u8, DType::boolean, DType::i64, DType::f64}) {
    if ((t == DType::i64 && !device().caps().i64) || (t == DType::f64 && !device().caps().f64)) continue;
    Tensor x = counted({2, 5, 3}, 0, t);
    const Tensor u = counted({2, 1, 3}, 60, t);
    const Values want = expected(x.to_doubles(), x.shape(), 1, {3}, u.to_doubles());
    x.assign(index_copy(x, 1, indices({3}), u));
    EXPECT_EQ(x.to_doubles(), want) << name_of(t);
  }
}

// Who reads the old value reads the old value, who reads the new one the new one.
TEST_P(CopyRows, ReadersSeeWhatTheyAskedFor) {
  Tensor x = counted({6, 4});
  const Values before = x.to_doubles();
  const Tensor u = counted({1, 4}, 100), at = indices({2});
  const Tensor old_sum = sum(x * 2.0, {0});
  x.assign(index_copy(x, 0, at, u));
  const Tensor new_sum = sum(x * 2.0, {0});
  const Values after = expected(before, {6, 4}, 0, {2}, u.to_doubles());
  for (size_t c = 0; c < 4; ++c) {
    double old_total = 0, new_total = 0;
    for (size_t r = 0; r < 6; ++r) old_total += 2 * before[r * 4 + c], new_total += 2 * after[r * 4 + c];
    EXPECT_EQ(old_sum.to_doubles()[c], old_total);
    EXPECT_EQ(new_sum.to_doubles()[c], new_total);
  }
  EXPECT_EQ(x.to_doubles(), after);
}

// Rows that come from x itself, old values that are needed behind the write, a second owner of the memory, two writes
// in one step.
TEST_P(CopyRows, WhereInPlaceIsWrong) {
  const Shape shape{6, 4};
  const Values numbers = counted(shape).to_doubles();
  Tensor x = counted(shape);
  x.assign(index_copy(x, 0, indices({0, 1, 2, 3, 4, 5}), flip(x, {0})));
  EXPECT_EQ(x.to_doubles(), flip(counted(shape), {0}).to_doubles());

  x = counted(shape);
  const Values shifted = expected(numbers, shape, 0, {1, 2}, Values(numbers.begin(), numbers.begin() + 8));
  x.assign(index_copy(x, 0, indices({1, 2}), slice(x, 0, {.start = 0, .stop = 2})));
  EXPECT_EQ(x.to_doubles(), shifted);

  x = counted(shape);
  const Tensor alias = x.detach(), u = counted({1, 4}, 100);
  x.assign(index_copy(x, 0, indices({5}), u));
  EXPECT_EQ(alias.to_doubles(), numbers);
  EXPECT_EQ(x.to_doubles(), expected(numbers, shape, 0, {5}, u.to_doubles()));

  x = counted(shape);
  x.assign(index_copy(x, 0, indices({1}), u));
  x.assign(index_copy(x, 0, indices({3}), u * 2.0));
  EXPECT_EQ(x.to_doubles(),
            expected(expected(numbers, shape, 0, {1}, u.to_doubles()), shape, 0, {3}, (u * 2.0).to_doubles()));

  Tensor a = counted(shape), b = counted(shape, 50);
  const Tensor row_of_a = slice(a, 0, {.start = 0, .stop = 1}), row_of_b = slice(b, 0, {.start = 0, .stop = 1});
  a.assign(index_copy(a, 0, indices({0}), row_of_b));  // a swap: neither write can be the first
  b.assign(index_copy(b, 0, indices({0}), row_of_a));
  EXPECT_EQ(a.to_doubles()[1], 51);
  EXPECT_EQ(b.to_doubles()[1], 1);
}

// A recording is replayed while the position moves, and each replay writes one row and nothing else.
TEST_P(CopyRows, ReplaysWriteARowEach) {
  Tensor x = zeros({2, 300, 8}, DType::f32, &device()), length = zeros({1}, DType::i32, &device());
  eval({x, length});
  const auto step = compile([&](const Tensor& row) {
    x.assign(index_copy(x, 1, length, row));
    length.assign(length + 1);
  });
  Values want(2 * 300 * 8);
  Profiler profiler;
  for (int t = 0; t < 20; ++t) {
    const Tensor row = counted({2, 1, 8}, 100 * t);
    want = expected(want, x.shape(), 1, {t}, row.to_doubles());
    step(row);
  }
  EXPECT_EQ(x.to_doubles(), want);
  const std::vector<KernelRow> rows = profiler.stop().rows();
  const auto written = [](const KernelRow& row) { return row.facts.ops.find("copy_rows") != std::string::npos; };
  ASSERT_TRUE(std::ranges::any_of(rows, written));
  for (const KernelRow& row : rows) {
    if (written(row)) {
      EXPECT_EQ(row.facts.written_bytes, 2 * 8 * 4);
    }
    EXPECT_LE(row.facts.written_bytes, 2 * 8 * 4) << row.facts.ops;
  }
}

HEDDLE_DEVICE_TESTS(CopyRows);

}  // namespace
}  // namespace heddle::tests
