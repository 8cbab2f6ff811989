// Movement and elementwise kernels under every schedule: turned tiles, streamed stores, several elements a lane, at odd
// sizes, on strided views and of every dtype, against plain loops in the test.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <set>

#include "heddle/core/device/context.h"
#include "heddle/core/functions/functions.h"
#include "heddle/core/tiles/tuning.h"
#include "tests/support/devices.h"

namespace heddle {
namespace {

// A schedule forced on every elementwise kernel of this thread.
struct ForcedSchedule {
  const char* name;
  Bindings values;
};
const std::vector<ForcedSchedule>& schedules() {
  static const std::vector<ForcedSchedule> all = {
      {"default", {}},
      {"plain", {{"STREAM", 0}, {"TILE", 0}, {"QUADS", 0}}},
      {"streamed", {{"STREAM", 1}, {"CHUNK", 2048}}},
      {"tiles", {{"STREAM", 0}, {"TILE", 1}, {"TILE_I", 32}, {"TILE_S", 96}, {"TILE_Q", 64}}},
      {"streamed tiles", {{"STREAM", 1}, {"TILE", 1}, {"TILE_I", 64}, {"TILE_S", 64}, {"TILE_Q", 16}}},
      {"lanes", {{"LANES", 32}, {"PER_LANE", 4}, {"TILE", 0}, {"QUADS", 0}}},
      {"read ahead", {{"LANES", 32}, {"PER_LANE", 3}, {"AHEAD", 1}, {"TILE", 0}, {"QUADS", 0}}},
      {"quads", {{"LANES", 8}, {"QUADS", 3}, {"TILE", 0}}},
      {"small tiles", {{"TILE", 1}, {"TILE_I", 16}}},
  };
  return all;
}

class Movement : public ::testing::TestWithParam<std::string> {
 protected:
  DeviceContext& dev() { return device(GetParam()); }

  // Whole numbers that every dtype holds exactly.
  std::vector<float> numbers(int64_t count, DType dtype = DType::f32, int start = 0) {
    std::vector<float> v(static_cast<size_t>(count));
    for (size_t i = 0; i < v.size(); ++i)
      v[i] = static_cast<float>(dtype == DType::boolean ? (i * 7 + static_cast<size_t>(start)) % 3 == 0
                                                        : (i * 131 + static_cast<size_t>(start)) % 101);
    return v;
  }

  Tensor tensor(const std::vector<float>& v, const Shape& shape, DType dtype = DType::f32) {
    Tensor t = cast(Tensor::from_vector(v, shape, &dev()), dtype);
    eval({t});
    return t;
  }

  // Under every schedule, or those that are named: each is a kernel that a driver takes a third of a second to compile.
  void expect(const std::function<Tensor()>& program, const std::vector<float>& want,
              const std::set<std::string>& only = {}) {
    for (const ForcedSchedule& forced : schedules()) {
      if (!only.empty() && !only.contains(forced.name)) continue;
      SCOPED_TRACE(forced.name);
      const ScopedTuning scope({"elementwise", "", {}}, forced.values);
      const std::vector<float> got = cast(program(), DType::f32).to_vector<float>();
      ASSERT_EQ(got.size(), want.size());
      for (size_t i = 0; i < want.size(); ++i) ASSERT_EQ(got[i], want[i]) << "element " << i;
    }
  }
};

// Row-major element of `v`, of shape `shape`, at `at`.
float element(const std::vector<float>& v, const std::vector<int64_t>& shape, const std::vector<int64_t>& at) {
  int64_t index = 0;
  for (size_t d = 0; d < shape.size(); ++d) index = index * shape[d] + at[d];
  return v[static_cast<size_t>(index)];
}

// v, of `shape`, with its dimensions in that order.
std::vector<float> permuted(const std::vector<float>& v, const std::vector<int64_t>& shape,
                            const std::vector<int>& order) {
  std::vector<float> out;
  std::vector<int64_t> at(shape.size(), 0), from(shape.size());
  for (size_t n = 0; n < v.size(); ++n) {
    for (size_t d = 0; d < order.size(); ++d) from[static_cast<size_t>(order[d])] = at[d];
    out.push_back(element(v, shape, from));
    for (size_t d = order.size(); d-- > 0;) {
      if (++at[d] < shape[static_cast<size_t>(order[d])]) break;
      at[d] = 0;
    }
  }
  return out;
}

std::vector<float> plus_one(std::vector<float> v) {
  for (float& x : v) x += 1;
  return v;
}

// Rows of whole lines and others, longer than a unit and shorter, read from their ends.
TEST_P(Movement, FlipsOfLongRows) {
  for (const int64_t columns : {512, 640, 1003, 5000}) {
    SCOPED_TRACE(columns);
    const std::vector<float> v = numbers(3 * columns);
    const Tensor x = tensor(v, {3, columns});
    std::vector<float> want;
    for (int64_t r = 0; r < 3; ++r) {
      for (int64_t c = columns; c-- > 0;) want.push_back(v[static_cast<size_t>(r * columns + c)] + 1);
    }
    expect([&] { return flip(x, {1}) + 1.0; }, want, {"default", "streamed"});
  }
}

// Parts of whole lines and others, computed or not, in rows longer than a unit: each is a loop of its own.
TEST_P(Movement, RowsJoinedOfLongParts) {
  for (const std::vector<int64_t>& parts :
       std::vector<std::vector<int64_t>>{{640, 128}, {1001, 1001}, {600, 3000, 517}, {700, 5}}) {
    SCOPED_TRACE(parts.size() * 10000 + static_cast<size_t>(parts[0]));
    std::vector<std::vector<float>> values;
    std::vector<Tensor> tensors;
    for (const int64_t columns : parts) {
      values.push_back(numbers(3 * columns, DType::f32, static_cast<int>(values.size()) * 17));
      tensors.push_back(tensor(values.back(), {3, columns}));
    }
    std::vector<float> want;
    for (size_t r = 0; r < 3; ++r) {
      for (size_t p = 0; p < parts.size(); ++p) {
        const auto columns = static_cast<size_t>(parts[p]);
        for (size_t c = 0; c < columns; ++c) {
          const size_t from = p == 1 ? columns - 1 - c : c;
          want.push_back(values[p][r * columns + from] + static_cast<float>(p == 0));
        }
      }
    }
    expect(
        [&] {
          std::vector<Tensor> rows{tensors[0] + 1.0, flip(tensors[1], {1})};
          rows.insert(rows.end(), tensors.begin() + 2, tensors.end());
          return concat(rows, 1) * 1.0;
        },
        want, {"default", "plain", "streamed"});
  }
}

TEST_P(Movement, TransposesOfOddSizes) {
  for (const auto& [rows, columns] :
       std::vector<std::pair<int64_t, int64_t>>{{64, 128}, {100, 37}, {33, 129}, {8, 600}, {7, 9}, {1, 50}}) {
    SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(columns));
    const std::vector<float> v = numbers(rows * columns);
    const Tensor x = tensor(v, {rows, columns});
    expect([&] { return transpose(x) + 1.0; }, plus_one(permuted(v, {rows, columns}, {1, 0})));
  }
}

// Rows of whole lines are written past the caches however short they are; others from a few hundred elements on.
TEST_P(Movement, OuterProductsOfShortRows) {
  for (const auto& [columns, dtype] : std::vector<std::pair<int64_t, DType>>{
           {64, DType::f32}, {192, DType::bf16}, {320, DType::f32}, {600, DType::f32}, {63, DType::f32}}) {
    SCOPED_TRACE(std::to_string(columns) + " columns of " + std::string(name_of(dtype)));
    const int64_t rows = 21;
    std::vector<float> a = numbers(rows), b = numbers(columns, DType::f32, 3), want;
    for (float& x : a) x = std::fmod(x, 3.0f);  // products that bf16 holds
    for (const float x : a) {
      for (const float y : b) want.push_back(x * std::fmod(y, 64.0f));
    }
    for (float& y : b) y = std::fmod(y, 64.0f);
    const Tensor x = tensor(a, {rows, 1}, dtype), y = tensor(b, {columns}, dtype);
    expect([&] { return x * y; }, want, {"plain", "streamed"});
  }
}

TEST_P(Movement, TransposesOfEveryDType) {
  const std::vector<int64_t> shape = {128, 70};
  for (DType dtype :
       {DType::f16, DType::bf16, DType::f64, DType::i8, DType::u8, DType::i32, DType::i64, DType::boolean}) {
    if ((dtype == DType::f64 && !dev().caps().f64) || (dtype == DType::i64 && !dev().caps().i64)) continue;
    SCOPED_TRACE(name_of(dtype));
    const std::vector<float> v = numbers(70 * 128, dtype);
    const Tensor x = tensor(v, Shape(shape), dtype), y = tensor(numbers(70 * 128, dtype, 50), {70, 128}, dtype);
    if (dtype == DType::boolean) {
      std::vector<float> want = permuted(v, shape, {1, 0});
      for (float& w : want) w = 1 - w;
      expect([&] { return !transpose(x); }, want, {"streamed tiles", "small tiles"});
      continue;
    }
    std::vector<float> want = permuted(v, shape, {1, 0});
    const std::vector<float> other = numbers(70 * 128, dtype, 50);
    for (size_t i = 0; i < want.size(); ++i) want[i] = std::max(want[i], other[i]);
    expect([&] { return maximum(transpose(x), y); }, want, {"streamed tiles", "small tiles"});
  }
}

TEST_P(Movement, PermutesOfManyDimensions) {
  for (const auto& [shape, order] : std::vector<std::pair<std::vector<int64_t>, std::vector<int>>>{
           {{3, 20, 9, 7}, {0, 2, 3, 1}},   // NCHW -> NHWC
           {{3, 9, 7, 20}, {0, 3, 1, 2}},   // and back
           {{2, 11, 5, 16}, {0, 2, 1, 3}},  // heads
           {{17, 4, 12}, {2, 1, 0}},
           {{2, 3, 2, 3, 2, 9, 2, 10}, {7, 2, 5, 0, 3, 1, 6, 4}}}) {
    const std::vector<float> v = numbers(std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>()));
    const Tensor x = tensor(v, Shape(shape));
    expect([&] { return permute(x, order) + 1.0; }, plus_one(permuted(v, shape, order)), {"tiles", "lanes"});
  }
}

TEST_P(Movement, SeveralTurnedOperandsAndResults) {
  constexpr int64_t rows = 70, columns = 64;
  const std::vector<float> a = numbers(rows * columns), b = numbers(rows * columns, DType::f32, 5),
                           bias = numbers(rows, DType::f32, 9);
  const Tensor ta = tensor(a, {rows, columns}), tb = tensor(b, {rows, columns}), tbias = tensor(bias, {rows});
  const std::vector<float> at = permuted(a, {rows, columns}, {1, 0}), bt = permuted(b, {rows, columns}, {1, 0});
  std::vector<float> want;
  for (size_t i = 0; i < at.size(); ++i) want.push_back(at[i] * 2 + bt[i] + bias[i % rows]);
  expect([&] { return transpose(ta) * 2.0 + transpose(tb) + tbias; }, want);
  // A second result of the same kernel, and an operand that is not turned.
  for (size_t i = 0; i < want.size(); ++i) want[i] = at[i] + want[i];
  expect(
      [&] {
        const Tensor first = transpose(ta) * 2.0 + transpose(tb) + tbias;
        Tensor second = first + transpose(ta);
        eval({first, second});
        return second;
      },
      want);
}

TEST_P(Movement, StreamedRowsOfAnyAlignment) {
  // Rows that begin anywhere in a cache line, whole lines and tails; every width of element.
  for (DType dtype : {DType::f32, DType::f16, DType::bf16, DType::i8, DType::u8, DType::i32, DType::i64, DType::f64,
                      DType::boolean}) {
    if ((dtype == DType::f64 && !dev().caps().f64) || (dtype == DType::i64 && !dev().caps().i64)) continue;
    SCOPED_TRACE(name_of(dtype));
    constexpr int64_t rows = 5, columns = 1037;
    const std::vector<float> v = numbers(rows * columns, dtype), b = numbers(columns, dtype, 3);
    const Tensor x = tensor(v, {rows, columns}, dtype), y = tensor(b, {columns}, dtype);
    std::vector<float> want = v;
    for (size_t i = 0; i < want.size(); ++i)
      want[i] = dtype == DType::boolean ? static_cast<float>(v[i] != 0 && b[i % columns] != 0)
                                        : std::max(v[i], b[i % columns]);
    expect([&] { return dtype == DType::boolean ? x && y : maximum(x, y); }, want, {"streamed", "lanes"});
    if (dtype == DType::f32) expect([&] { return maximum(x, x); }, v);  // one row
  }
}

TEST_P(Movement, ViewsWithOffsetsAndNegativeStrides) {
  constexpr int64_t rows = 40, columns = 600;
  const std::vector<float> v = numbers(rows * columns);
  const Tensor x = tensor(v, {rows, columns});
  std::vector<float> want;
  for (int64_t c = 597; c >= 3; c -= 2) {
    for (int64_t r = rows - 1; r >= 1; --r) want.push_back(v[static_cast<size_t>(r * columns + c)] + 1);
  }
  expect([&] { return transpose(flip(slice(slice(x, 1, {3, 598, 2}), 0, {1, rows}), {0, 1})) + 1.0; }, want);
  want.clear();
  for (int64_t r = 1; r < rows; ++r) {
    for (int64_t c = 596; c >= 1; --c)
      want.push_back(v[static_cast<size_t>(r * columns + c)] + v[static_cast<size_t>(r * columns + 597 - c)]);
  }
  expect(
      [&] {
        const Tensor s = slice(slice(x, 0, {1, rows}), 1, {1, 597});
        return flip(s, {1}) + s;
      },
      want);
}

TEST_P(Movement, InPlaceUpdatesReadTheOldValue) {
  for (const ForcedSchedule& forced : schedules()) {
    SCOPED_TRACE(forced.name);
    const ScopedTuning scope({"elementwise", "", {}}, forced.values);
    constexpr int64_t n = 64;
    const std::vector<float> v = numbers(n * n);
    Tensor p = tensor(v, {n, n});
    const Tensor q = tensor(v, {n, n});
    p.assign(p + transpose(q));
    p.assign(transpose(p) * 2.0);
    const std::vector<float> got = p.to_vector<float>();
    for (int64_t r = 0; r < n; ++r) {
      for (int64_t c = 0; c < n; ++c) {
        ASSERT_EQ(got[static_cast<size_t>(r * n + c)],
                  2 * (v[static_cast<size_t>(c * n + r)] + v[static_cast<size_t>(r * n + c)]));
      }
    }
  }
}

// What a view can express is not copied: slices joined again, and slices of what was joined.
TEST_P(Movement, SlicesAndConcatsMeet) {
  const std::vector<float> v = numbers(8 * 6);
  const Tensor x = tensor(v, {8, 6}), y = tensor(numbers(8 * 6, DType::f32, 7), {8, 6});
  const auto kernels = [&](const Tensor& result) {
    const uint64_t before = dev().counters().kernels;
    eval({result});
    return dev().counters().kernels - before;
  };
  const Tensor joined = concat({slice(x, 1, {0, 2}), slice(x, 1, {2, 5}), slice(x, 1, {5, 6})}, 1);
  EXPECT_EQ(kernels(joined), 0u);
  EXPECT_EQ(joined.to_vector<float>(), v);
  const Tensor part = slice(concat({y, x}, 0), 0, {9, 16, 3});
  EXPECT_EQ(kernels(part), 0u);
  std::vector<float> want;
  for (int64_t r : {1, 4, 7}) want.insert(want.end(), v.begin() + r * 6, v.begin() + r * 6 + 6);
  EXPECT_EQ(part.to_vector<float>(), want);
  // Not neighbours, another order, another value, across the seam: copied, and right.
  const Tensor gap = concat({slice(x, 0, {0, 2}), slice(x, 0, {3, 8})}, 0),
               swapped = concat({slice(x, 0, {4, 8}), slice(x, 0, {0, 4})}, 0),
               mixed = concat({slice(x, 0, {0, 4}), slice(y, 0, {4, 8})}, 0),
               seam = slice(concat({x, y}, 0), 0, {6, 10});
  EXPECT_GT(kernels(seam), 0u);  // which computes the others as well
  want.assign(v.begin(), v.begin() + 12);
  want.insert(want.end(), v.begin() + 18, v.end());
  EXPECT_EQ(gap.to_vector<float>(), want);
  want.assign(v.begin() + 24, v.end());
  want.insert(want.end(), v.begin(), v.begin() + 24);
  EXPECT_EQ(swapped.to_vector<float>(), want);
  const std::vector<float> w = y.to_vector<float>();
  want.assign(v.begin(), v.begin() + 24);
  want.insert(want.end(), w.begin() + 24, w.end());
  EXPECT_EQ(mixed.to_vector<float>(), want);
  want.assign(v.begin() + 36, v.end());
  want.insert(want.end(), w.begin(), w.begin() + 12);
  EXPECT_EQ(seam.to_vector<float>(), want);
}

// Vectors of four where operands allow them (llvmpipe): aligned, shifted, broadcast and reversed loads beside each
// other, results of several widths.
TEST_P(Movement, FourElementsAtATime) {
  constexpr int64_t rows = 37, columns = 44;
  const std::vector<float> v = numbers(rows * columns), w = numbers(columns, DType::f32, 5),
                           u = numbers(rows, DType::f32, 9);
  const Tensor x = tensor(v, {rows, columns}), y = tensor(w, {columns}), z = tensor(u, {rows, 1});
  const Tensor whole = tensor(v, {rows, columns}, DType::i32);
  const std::set<std::string> only = {"default", "plain", "quads"};
  const auto want = [&](int64_t start, int64_t stop, const std::function<float(int64_t, int64_t)>& f) {
    std::vector<float> out;
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = start; c < stop; ++c) out.push_back(f(r, c));
    }
    return out;
  };
  const auto at = [&](int64_t r, int64_t c) { return v[static_cast<size_t>(r * columns + c)]; };
  expect(
      [&] { return x * 2.0 + y + z; },
      want(0, columns,
           [&](int64_t r, int64_t c) { return 2 * at(r, c) + w[static_cast<size_t>(c)] + u[static_cast<size_t>(r)]; }),
      only);
  for (const int64_t start : {1, 4}) {  // shifted and aligned rows of a longer matrix
    expect(
        [&] {
          return slice(x, 1, {start, start + 36}) + slice(y, 0, {8, 44});
        },
        want(start, start + 36, [&](int64_t r, int64_t c) { return at(r, c) + w[static_cast<size_t>(c - start + 8)]; }),
        only);
  }
  expect([&] { return flip(x, {1}) + x; },
         want(0, columns, [&](int64_t r, int64_t c) { return at(r, c) + at(r, columns - 1 - c); }), only);
  expect(
      [&] {
        return pad(slice(x, 1, {2, 41}), {{0, 0}, {3, 2}}) + x;
      },
      want(0, columns, [&](int64_t r, int64_t c) { return at(r, c) + (c >= 3 && c < 42 ? at(r, c - 1) : 0); }), only);
  expect([&] { return whole * 3 + cast(x, DType::i32); },
         want(0, columns, [&](int64_t r, int64_t c) { return 4 * at(r, c); }), only);
  for (const ForcedSchedule& forced : schedules()) {
    if (!only.contains(forced.name)) continue;
    const ScopedTuning scope({"elementwise", "", {}}, forced.values);
    const Tensor sums = x + z, halves = cast(sums * 0.5, DType::f16), positive = sums > 60.0,
                 ints = cast(sums, DType::i32);
    eval({sums, halves, positive, ints});
    const std::vector<float> s = sums.to_vector<float>(), h = cast(halves, DType::f32).to_vector<float>(),
                             p = cast(positive, DType::f32).to_vector<float>();
    const std::vector<int32_t> i = ints.to_vector<int32_t>();
    for (int64_t n = 0; n < rows * columns; ++n) {
      const float sum = v[static_cast<size_t>(n)] + u[static_cast<size_t>(n / columns)];
      const auto k = static_cast<size_t>(n);
      ASSERT_EQ(s[k], sum);
      ASSERT_EQ(h[k], sum / 2);
      ASSERT_EQ(p[k], static_cast<float>(sum > 60));
      ASSERT_EQ(i[k], static_cast<int32_t>(sum));
    }
  }
}

// What an optimizer that assumes finite numbers would fold: 0 times infinity, infinity less itself.
TEST_P(Movement, NothingIsFoldedThatMayBeNaN) {
  const float infinity = std::numeric_limits<float>::infinity();
  const Tensor x = Tensor::from_vector(std::vector<float>{1, infinity, std::nanf(""), -2, 0}, {5}, &dev());
  const auto nans = [](const Tensor& t) {
    std::string found;
    for (const float f : t.to_vector<float>()) found += std::isnan(f) ? 'n' : '.';
    return found;
  };
  EXPECT_EQ(nans(x * 0.0), ".nn..");
  EXPECT_EQ(nans(x * zeros({5}, DType::f32, &dev())), ".nn..");
  EXPECT_EQ(nans(x - x), ".nn..");
  EXPECT_EQ(nans(x / x), ".nn.n");
}

TEST_P(Movement, EmptyAndScalar) {
  expect([&] { return transpose(Tensor::from_vector(std::vector<float>{}, {0, 5}, &dev())) + 1.0; }, {});
  expect([&] { return tensor({3}, {}) + 1.0; }, {4});
}

// What is stored as f16 or bf16 is rounded once, and what is computed on from a cast is rounded by the cast.
TEST_P(Movement, CastsRoundWhereTheyStand) {
  for (DType dtype : {DType::f16, DType::bf16}) {
    const std::vector<float> v = {1.0f,     1.0009765f, 1.00048828125f, 1.00390625f, 1.005859375f,
                                  65519.0f, 1e-7f,      -3.14159274f,   0.1f,        300.3f};
    const Tensor x = Tensor::from_vector(v, {static_cast<int64_t>(v.size())}, &dev());
    const std::vector<double> alone = cast(x, dtype).to_doubles();
    const std::vector<double> through = ((cast(cast(x, dtype), DType::f32) - x) + x).to_doubles();
    std::vector<unsigned char> raw(2);
    for (size_t i = 0; i < v.size(); ++i) {
      store_element(raw.data(), dtype, 0, v[i]);
      const double rounded = load_element(raw.data(), dtype, 0);
      EXPECT_EQ(alone[i], rounded);
      EXPECT_NEAR(through[i], rounded, 1e-7 * std::abs(rounded)) << v[i];
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, Movement, ::testing::ValuesIn(test::kernel_devices()), [](const auto& p) {
  std::string name = p.param;
  std::replace(name.begin(), name.end(), ':', '_');
  return name;
});
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Movement);

}  // namespace
}  // namespace heddle
