// Tensors at the limits of a device: the largest that it can hold and bind, written and read at both ends; one byte
// more, and more elements than a kernel can address, are refused in words.
#include <algorithm>
#include <fstream>
#include <string>

#include "heddle/core/base/error.h"
#include "heddle/core/device/context.h"
#include "heddle/core/functions/functions.h"
#include "tests/support/device_test.h"

namespace heddle::tests {
namespace {

class LargeTensor : public DeviceTest {};

// MemAvailable in bytes; 0 where the system does not say.
uint64_t available_memory() {
  std::ifstream file("/proc/meminfo");
  std::string name;
  uint64_t kib = 0;
  for (std::string rest; file >> name >> kib; std::getline(file, rest)) {
    if (name == "MemAvailable:") return kib * 1024;
  }
  return 0;
}

TEST_P(LargeTensor, TheLargestIsRightAtBothEnds) {
  const Caps& caps = device().caps();
  // 600 M elements of 4 bytes, 2.4 GB, where the device takes them; else the largest that one binding and one
  // allocation cover, in whole rows.
  constexpr int64_t columns = 1000;
  const uint64_t bytes = std::min<uint64_t>({2400000000, caps.max_binding_bytes, caps.max_allocation_bytes});
  const auto rows = static_cast<int64_t>(bytes / (4 * columns));
  const int64_t n = rows * columns;
  const uint64_t needed = 2 * bytes + (1ull << 30);
  if (available_memory() < needed)
    GTEST_SKIP() << "needs " << (needed >> 20) << " MiB of memory, " << (available_memory() >> 20) << " are available";
  RecordProperty("bytes", std::to_string(4 * n));
  const Tensor x = arange(0, static_cast<double>(n), 1, DType::i32, &device());
  const Tensor y =
      flip(reshape(x, {rows, columns}), {0, 1}) + 7;  // element k is n - 1 - k + 7, so the ends change places
  eval({y});
  const auto at = [&](int64_t row, int64_t column) {
    return slice(slice(y, 0, {row, row + 1}), 1, {column, column + 2}).to_vector<int32_t>();
  };
  const auto want = [&](int64_t row, int64_t column) {
    const auto first = static_cast<int32_t>(n - 1 - (row * columns + column) + 7);
    return std::vector<int32_t>{first, first - 1};
  };
  for (const int64_t row : {int64_t{0}, rows / 2, rows - 1}) {
    for (const int64_t column : {int64_t{0}, columns - 2})
      EXPECT_EQ(at(row, column), want(row, column)) << "row " << row << " of " << rows;
  }
  // Sums to 2 (n - 1 + 14): the first and the last row meet.
  const Tensor ends = slice(y, 0, {0, 1}) + slice(y, 0, {rows - 1, rows});
  EXPECT_EQ(slice(ends, 1, {0, 1}).to_vector<int32_t>(),
            (std::vector<int32_t>{static_cast<int32_t>(n + 13 + columns - 1)}));
}

TEST_P(LargeTensor, BeyondTheLimitsIsRefusedInWords) {
  const Caps& caps = device().caps();
  const auto message = [](const Tensor& t) -> std::string {
    try {
      eval({t});
    } catch (const Error& e) {
      return e.what();
    }
    return "";
  };
  // Elements: every kernel counts them in 31 bits.
  const std::string elements = message(zeros({3, int64_t{1} << 30}, DType::i8, &device()) + 1);
  EXPECT_TRUE(elements.find("elements") != std::string::npos &&
              elements.find("compute it in parts") != std::string::npos)
      << elements;
  EXPECT_EQ(elements.find("[lower]"), std::string::npos) << elements;
  const auto count = static_cast<int64_t>(std::max(caps.max_allocation_bytes, caps.max_binding_bytes) / 8 + 1);
  if (count > INT32_MAX || !caps.i64) GTEST_SKIP() << "this device holds whatever its kernels can address";
  const std::string bytes = message(arange(0, static_cast<double>(count), 1, DType::i64, &device()));
  EXPECT_TRUE(bytes.find("max_binding_bytes") != std::string::npos ||
              bytes.find("max_allocation_bytes") != std::string::npos ||
              bytes.find("out of device memory") != std::string::npos)
      << bytes;
}

// In how many pieces a long sum or product is cut is not searched for where nothing can run: such a search is as long
// as the size.
TEST_P(LargeTensor, HopelessSizesAreRefusedAtOnce) {
  constexpr int64_t n = int64_t{1} << 62;
  const Tensor one = full({1}, 1, DType::f32, &device());
  const Tensor line = expand(one, {n}), table = expand(one, {n / 4, 3});
  const Tensor wide = expand(one, {3, n / 8}), tall = expand(one, {n / 8, 5});
  for (const Tensor& hopeless : {sum(line), argmax(line, 0), prod(table, std::vector<int>{0}), matmul(wide, tall),
                                 cumsum(line, 0), sort(line, 0).values}) {
    EXPECT_THROW(eval({hopeless}), LimitError) << hopeless.shape().str();
  }
}

HEDDLE_DEVICE_TESTS(LargeTensor);

}  // namespace
}  // namespace heddle::tests
