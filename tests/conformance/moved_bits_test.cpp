// Moving f16 and bf16 keeps every bit, also of subnormal numbers and of each NaN, under every schedule. The oracle
// moves uint16_t.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>

#include "heddle/core/device/context.h"
#include "heddle/core/functions/functions.h"
#include "heddle/core/tiles/tuning.h"
#include "tests/support/devices.h"

namespace heddle {
namespace {

using Bits = std::vector<uint16_t>;
constexpr int64_t side = 256;  // side * side elements: each pattern once
constexpr size_t patterns = static_cast<size_t>(side * side);

class MovedBits : public ::testing::TestWithParam<std::string> {
 protected:
  Tensor all(DType dtype) {
    Bits bits(patterns);
    std::iota(bits.begin(), bits.end(), uint16_t{0});
    return Tensor::from_bytes(bits.data(), bits.size(), dtype, {side, side}, &device(GetParam()));
  }

  // `want(r, c)`: the pattern of the result's element, of `columns` a row.
  void expect(const std::function<Tensor(const Tensor&)>& program, int64_t columns,
              const std::function<int64_t(int64_t, int64_t)>& want) {
    static const Bindings schedules[] = {{},
                                         {{"STREAM", 1}, {"CHUNK", 2048}, {"TILE", 0}},
                                         {{"STREAM", 1}, {"TILE", 1}, {"TILE_I", 64}, {"TILE_Q", 16}},
                                         {{"TILE", 1}, {"TILE_I", 16}}};
    for (const DType dtype : {DType::f16, DType::bf16}) {
      const Tensor x = all(dtype);
      for (const Bindings& forced : schedules) {
        const ScopedTuning scope({"elementwise", "", {}}, forced);
        const std::vector<uint8_t> bytes = program(x).to_bytes();
        Bits got(bytes.size() / 2);
        std::memcpy(got.data(), bytes.data(), bytes.size());
        for (size_t i = 0; i < got.size(); ++i) {
          const auto n = static_cast<int64_t>(i);
          ASSERT_EQ(got[i], static_cast<uint16_t>(want(n / columns, n % columns)))
              << name_of(dtype) << ", element " << i;
        }
      }
    }
  }
};

TEST_P(MovedBits, Taken) {
  std::vector<int32_t> rows(side);
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<int32_t>(i * 37 % side);
  const Tensor index = Tensor::from_vector(rows, {side}, &device(GetParam()));
  expect([&](const Tensor& x) { return take(x, index, 0); }, side,
         [](int64_t r, int64_t c) { return r * 37 % side * side + c; });
}

TEST_P(MovedBits, Transposed) {
  expect(
      [](const Tensor& x) {
        return concat({transpose(x), x}, 1);
      },
      2 * side, [](int64_t r, int64_t c) { return c < side ? c * side + r : r * side + c - side; });
}

TEST_P(MovedBits, Padded) {
  const auto inside = [](int64_t r, int64_t c) { return r >= 1 && r <= side && c >= 3 && c < side + 3; };
  expect(
      [](const Tensor& x) {
        return pad(x, {{1, 0}, {3, 2}}, 0);
      },
      side + 5, [&](int64_t r, int64_t c) { return inside(r, c) ? (r - 1) * side + c - 3 : 0; });
}

TEST_P(MovedBits, Chosen) {
  std::vector<uint8_t> mask(patterns);
  for (size_t i = 0; i < mask.size(); ++i) mask[i] = i % 3 == 0;
  const Tensor chosen = Tensor::from_bytes(mask.data(), mask.size(), DType::boolean, {side, side}, &device(GetParam()));
  expect(
      [&](const Tensor& x) {
        return where(chosen, x, flip(x, {0, 1}));
      },
      side,
      [](int64_t r, int64_t c) {
        const int64_t i = r * side + c;
        return i % 3 == 0 ? i : side * side - 1 - i;
      });
}

INSTANTIATE_TEST_SUITE_P(Devices, MovedBits, ::testing::ValuesIn(test::kernel_devices()), [](const auto& p) {
  std::string name = p.param;
  std::replace(name.begin(), name.end(), ':', '_');
  return name;
});
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(MovedBits);

}  // namespace
}  // namespace heddle
