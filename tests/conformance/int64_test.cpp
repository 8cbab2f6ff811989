// Arithmetic of 64-bit integers at the ends of their range and of their halves, against the host's, on every device:
// where a device has none, kernels compute with pairs of words (backend_vulkan/int64_words.h).
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include "heddle/core/device/context.h"
#include "heddle/core/functions/functions.h"
#include "tests/support/device_test.h"

namespace heddle::tests {
namespace {

using Integers = std::vector<int64_t>;
constexpr int64_t least = std::numeric_limits<int64_t>::min(), most = std::numeric_limits<int64_t>::max();

// Carries, borrows and signs at both halves, and numbers whose conversion to f32 is a tie.
const Integers& ends() {
  static const Integers all{0,
                            1,
                            -1,
                            2,
                            -7,
                            31,
                            32,
                            63,
                            0x7fffffff,
                            0x80000000,
                            -0x7fffffffll,
                            -0x80000000ll,
                            0xffffffff,
                            0x100000000,
                            -0xffffffffll,
                            -0x100000000,
                            -0x100000001,
                            0x123456789abcdef,
                            -0x123456789abcdef,
                            (int64_t{1} << 24) + 1,
                            (int64_t{1} << 40) + (int64_t{1} << 16),
                            (int64_t{1} << 40) + (int64_t{3} << 16),
                            (int64_t{1} << 40) + (int64_t{1} << 16) + 1,
                            -(int64_t{1} << 53) - 1,
                            most,
                            most - 1,
                            least,
                            least + 1};
  return all;
}

class Int64 : public DeviceTest {
 protected:
  void SetUp() override {
    if (!device().caps().i64) GTEST_SKIP() << "no i64 on this device";
    for (const int64_t x : ends()) {
      for (const int64_t y : ends()) {
        left_.push_back(x);
        right_.push_back(y);
      }
    }
  }
  Tensor tensor(const Integers& v) {
    return Tensor::from_bytes(v.data(), v.size(), DType::i64, Shape{static_cast<int64_t>(v.size())}, &device());
  }
  // Every pair of them.
  void expect(const char* what, const std::function<Tensor(const Tensor&, const Tensor&)>& f,
              const std::function<int64_t(int64_t, int64_t)>& wanted) {
    const Integers found = f(tensor(left_), tensor(right_)).to_vector<int64_t>();
    ASSERT_EQ(found.size(), left_.size());
    for (size_t i = 0; i < found.size(); ++i)
      EXPECT_EQ(found[i], wanted(left_[i], right_[i])) << left_[i] << " " << what << " " << right_[i];
  }
  Integers left_, right_;
};

int64_t wrapped(uint64_t v) { return static_cast<int64_t>(v); }
uint64_t bits(int64_t v) { return static_cast<uint64_t>(v); }
int64_t floor_quotient(int64_t x, int64_t y) {
  if (y == 0) return 0;
  if (y == -1) return wrapped(0 - bits(x));
  return x / y - (x % y != 0 && (x < 0) != (y < 0) ? 1 : 0);
}

TEST_P(Int64, SumsAndProductsWrap) {
  expect(
      "+", [](auto& x, auto& y) { return x + y; }, [](auto x, auto y) { return wrapped(bits(x) + bits(y)); });
  expect(
      "-", [](auto& x, auto& y) { return x - y; }, [](auto x, auto y) { return wrapped(bits(x) - bits(y)); });
  expect(
      "*", [](auto& x, auto& y) { return x * y; }, [](auto x, auto y) { return wrapped(bits(x) * bits(y)); });
  expect(
      "neg", [](auto& x, auto&) { return -x; }, [](auto x, auto) { return wrapped(0 - bits(x)); });
  expect(
      "abs", [](auto& x, auto&) { return abs(x); }, [](auto x, auto) { return x < 0 ? wrapped(0 - bits(x)) : x; });
}

TEST_P(Int64, Order) {
  const auto as_i64 = [](const Tensor& t) { return cast(t, DType::i64); };
  expect(
      "<", [&](auto& x, auto& y) { return as_i64(lt(x, y)); }, [](auto x, auto y) { return x < y; });
  expect(
      "<=", [&](auto& x, auto& y) { return as_i64(le(x, y)); }, [](auto x, auto y) { return x <= y; });
  expect(
      ">", [&](auto& x, auto& y) { return as_i64(gt(x, y)); }, [](auto x, auto y) { return x > y; });
  expect(
      ">=", [&](auto& x, auto& y) { return as_i64(ge(x, y)); }, [](auto x, auto y) { return x >= y; });
  expect(
      "==", [&](auto& x, auto& y) { return as_i64(eq(x, y)); }, [](auto x, auto y) { return x == y; });
  expect(
      "!=", [&](auto& x, auto& y) { return as_i64(ne(x, y)); }, [](auto x, auto y) { return x != y; });
  expect(
      "max", [](auto& x, auto& y) { return maximum(x, y); }, [](auto x, auto y) { return std::max(x, y); });
  expect(
      "min", [](auto& x, auto& y) { return minimum(x, y); }, [](auto x, auto y) { return std::min(x, y); });
  expect(
      "where", [](auto& x, auto& y) { return where(lt(x, y), y, x); }, [](auto x, auto y) { return std::max(x, y); });
}

TEST_P(Int64, Quotients) {
  expect(
      "//", [](auto& x, auto& y) { return integer_quotient(x, y); }, floor_quotient);
  expect(
      "mod", [](auto& x, auto& y) { return mod(x, y); },
      [](auto x, auto y) { return y == 0 ? 0 : wrapped(bits(x) - bits(floor_quotient(x, y)) * bits(y)); });
}

TEST_P(Int64, Bits) {
  expect(
      "&", [](auto& x, auto& y) { return bitwise_and(x, y); }, [](auto x, auto y) { return x & y; });
  expect(
      "|", [](auto& x, auto& y) { return bitwise_or(x, y); }, [](auto x, auto y) { return x | y; });
  expect(
      "^", [](auto& x, auto& y) { return bitwise_xor(x, y); }, [](auto x, auto y) { return x ^ y; });
  expect(
      "~", [](auto& x, auto&) { return bitwise_not(x); }, [](auto x, auto) { return ~x; });
  expect(
      "<<", [](auto& x, auto& y) { return shift_left(x, y); },
      [](auto x, auto y) { return wrapped(bits(x) << (y & 31)); });
  expect(
      ">>", [](auto& x, auto& y) { return shift_right(x, y); }, [](auto x, auto y) { return x >> (y & 31); });
  expect(
      "bitwise_left_shift", [](auto& x, auto& y) { return bitwise_left_shift(x, remainder(y, 64.0)); },
      [](auto x, auto y) { return wrapped(bits(x) << (y & 63)); });
}

TEST_P(Int64, Conversions) {
  expect(
      "i32", [](auto& x, auto&) { return cast(cast(x, DType::i32), DType::i64); },
      [](auto x, auto) { return static_cast<int64_t>(static_cast<int32_t>(bits(x))); });
  expect(
      "bool", [](auto& x, auto&) { return cast(cast(x, DType::boolean), DType::i64); },
      [](auto x, auto) { return x != 0; });
  const auto floats = cast(tensor(ends()), DType::f32).to_vector<float>();
  for (size_t i = 0; i < floats.size(); ++i) EXPECT_EQ(floats[i], static_cast<float>(ends()[i])) << ends()[i];
  if (!device().caps().f64) return;
  const auto doubles = cast(tensor(ends()), DType::f64).to_vector<double>();
  for (size_t i = 0; i < doubles.size(); ++i) EXPECT_EQ(doubles[i], static_cast<double>(ends()[i])) << ends()[i];
}

TEST_P(Int64, SumsOverRowsAndPlacesOfTheLargest) {
  const auto n = static_cast<int64_t>(ends().size());
  const Tensor x = reshape(tensor(right_), {n, n});
  uint64_t total = 0;
  for (const int64_t v : ends()) total += bits(v);
  const auto place = static_cast<int64_t>(std::max_element(ends().begin(), ends().end()) - ends().begin());
  for (const int64_t v : sum(x, {1}).to_vector<int64_t>()) EXPECT_EQ(v, wrapped(total));
  for (const int64_t v : argmax(x, 1).to_vector<int64_t>()) EXPECT_EQ(v, place);
  EXPECT_EQ(max(x, {1}).to_vector<int64_t>(), Integers(static_cast<size_t>(n), most));
  const Integers sorted = sort(tensor(ends())).values.to_vector<int64_t>();
  EXPECT_TRUE(std::is_sorted(sorted.begin(), sorted.end()));
}

HEDDLE_DEVICE_TESTS(Int64);

}  // namespace
}  // namespace heddle::tests
