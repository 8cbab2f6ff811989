// Casts of floats to integers: toward zero, out of range the nearest number that the dtype holds, NaN 0, on every
// device, stored or not.
#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "heddle/core/device/context.h"
#include "heddle/core/functions/functions.h"
#include "tests/support/value_test.h"

namespace heddle::tests {
namespace {

const std::vector<float>& edges() {
  static const std::vector<float> all{
      0.0f,    -0.0f,   0.9f,     -0.9f,     1.5f,        127.9f, 128.0f,        -128.9f,       -129.0f,
      255.5f,  256.0f,  300.0f,   -1.0f,     3e9f,        -3e9f,  2147483520.0f, 2147483648.0f, -2147483648.0f,
      9.2e18f, 9.3e18f, -9.3e18f, 1e20f,     -1e20f,      3e38f,  INFINITY,      -INFINITY,     NAN,
      -NAN,    1e-30f,  65504.0f, -65504.0f, 16777217.0f, 33.0f};
  return all;
}

// By comparison and subtraction of numbers, without a conversion that could be out of range.
int64_t expected_of(double value, DType to) {
  if (to == DType::boolean) return std::isnan(value) || value != 0 ? 1 : 0;
  if (std::isnan(value)) return 0;
  const double whole = std::trunc(value);
  const auto within = [&](double least, double most) { return whole < least ? least : whole > most ? most : whole; };
  switch (to) {
    case DType::i8:
      return static_cast<int64_t>(within(-128, 127));
    case DType::u8:
      return static_cast<int64_t>(within(0, 255));
    case DType::i32:
      return static_cast<int64_t>(within(-2147483648.0, 2147483647.0));
    default:
      return whole >= 0x1p63   ? std::numeric_limits<int64_t>::max()
             : whole < -0x1p63 ? std::numeric_limits<int64_t>::min()
                               : static_cast<int64_t>(whole);
  }
}

class Casts : public ValueTest {
 protected:
  bool has(DType t) const {
    return device().caps().target == Target::none ||
           ((t != DType::f64 || device().caps().f64) && (t != DType::i64 || device().caps().i64));
  }
  std::vector<int64_t> whole(const Tensor& x) const {
    std::vector<int64_t> all(static_cast<size_t>(x.dtype() == DType::i64 ? x.numel() : 0));
    if (x.dtype() == DType::i64) {  // to_vector() goes through double
      std::memcpy(all.data(), x.to_bytes().data(), all.size() * sizeof(int64_t));
      return all;
    }
    for (const double v : x.to_doubles()) all.push_back(static_cast<int64_t>(v));
    return all;
  }
};

TEST_P(Casts, OutOfRangeAndNaN) {
  for (const DType from : {DType::f32, DType::f16, DType::bf16, DType::f64}) {
    if (!has(from)) continue;
    const Tensor x = cast(Tensor::from_vector(edges(), {static_cast<int64_t>(edges().size())}, &device()), from);
    const std::vector<double> held = x.to_doubles();
    for (const DType to : {DType::i8, DType::u8, DType::i32, DType::i64, DType::boolean}) {
      if (!has(to)) continue;
      SCOPED_TRACE(fmt::format("{} to {}", name_of(from), name_of(to)));
      std::vector<int64_t> expected;
      for (const double v : held) expected.push_back(expected_of(v, to));
      EXPECT_EQ(whole(cast(x, to)), expected);
    }
  }
}

TEST_P(Casts, WithinKernels) {
  const Shape shape{static_cast<int64_t>(edges().size())};
  const Tensor x = Tensor::from_vector(edges(), shape, &device());
  for (const DType to : {DType::i8, DType::u8, DType::i32}) {
    SCOPED_TRACE(name_of(to));
    std::vector<int64_t> expected, back;
    for (const float v : edges()) {
      const int64_t doubled = expected_of(2.0 * v, to);
      expected.push_back(doubled / 2);
      back.push_back(static_cast<int64_t>(static_cast<float>(doubled)));
    }
    EXPECT_EQ(whole(floor_divide(cast(x * 2, to), 2) +
                    cast(cast(x * 2, to) < 0 && (cast(x * 2, to) - floor_divide(cast(x * 2, to), 2) * 2) != 0, to)),
              expected);
    EXPECT_EQ(whole(cast(cast(x * 2, to), DType::f32)), back);
  }
  EXPECT_EQ(whole(cast(full(shape, NAN, DType::f32, &device()) + 1, DType::i32)),
            std::vector<int64_t>(edges().size(), 0));
  EXPECT_EQ(whole(cast(full(shape, 1e20, DType::f32, &device()) * 2, DType::u8)),
            std::vector<int64_t>(edges().size(), 255));
}

// Bytes that a product reads through a cast.
TEST_P(Casts, InFrontOfProducts) {
  const int64_t n = static_cast<int64_t>(edges().size());
  const Tensor x = reshape(Tensor::from_vector(edges(), {n}, &device()), {n, 1});
  const Tensor one = full({n, 40}, 1, DType::i32, &device()) *
                     reshape(cast(arange(0, n, 1, DType::i32, &device()) == 0, DType::i32), {n, 1});
  for (const DType to : {DType::i8, DType::u8}) {
    SCOPED_TRACE(name_of(to));
    const Tensor bytes = expand(cast(x, to), {n, n});
    const std::vector<int64_t> product = whole(matmul(cast(bytes, DType::i32), one));
    for (int64_t i = 0; i < n; ++i)
      EXPECT_EQ(product[static_cast<size_t>(i * 40)], expected_of(edges()[static_cast<size_t>(i)], to))
          << edges()[static_cast<size_t>(i)];
  }
}

HEDDLE_VALUE_TESTS(Casts);

}  // namespace
}  // namespace heddle::tests
