// Values larger than a binding may be: every kind of kernel in sections (core/lower/sections.h), against the reference
// device. The values here are small: ctest runs this file as conformance_bindings, where HEDDLE_MAX_BINDING says that a
// binding covers 16 KiB.
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "heddle/autograd/autograd.h"
#include "heddle/core/base/error.h"
#include "heddle/core/device/context.h"
#include "heddle/core/functions/functions.h"
#include "heddle/core/functions/linalg/packed.h"
#include "heddle/nn/linear_cross_entropy.h"
#include "heddle/nn/optim.h"
#include "tests/support/device_test.h"
#include "tests/support/expect_error.h"
#include "tests/support/packed_blocks.h"

namespace heddle::tests {
namespace {

using Computed = std::function<Tensor(DeviceContext*)>;

class BindingLimit : public DeviceTest {
 protected:
  void SetUp() override {
    const uint64_t most = device().caps().max_binding_bytes;
    if (most > 1 << 16) GTEST_SKIP() << "a binding covers " << most << " bytes; HEDDLE_MAX_BINDING=16384 cuts values";
  }
  // Any values of mixed size and sign, rows of `columns`.
  static Tensor drawn(const Shape& shape, DeviceContext* where, DType dtype = DType::f32) {
    std::vector<float> values;
    uint32_t state = static_cast<uint32_t>(shape.numel());
    for (int64_t i = 0; i < shape.numel(); ++i) {
      state = state * 1664525u + 1013904223u;
      values.push_back(static_cast<float>(static_cast<int32_t>(state >> 8) % 2001 - 1000) / 256);
    }
    return cast(Tensor::from_vector(values, shape, where), dtype);
  }
  void expect_same(const Computed& f, double tolerance = 0) {
    const Tensor got = f(&device()), want = f(&heddle::device("reference:0"));
    ASSERT_EQ(got.shape(), want.shape());
    const std::vector<double> a = got.to_doubles(), b = want.to_doubles();
    for (size_t i = 0; i < a.size(); ++i) {
      if (std::isnan(a[i]) && std::isnan(b[i])) continue;
      ASSERT_NEAR(a[i], b[i], tolerance * std::max(1.0, std::abs(b[i]))) << i << " of " << a.size();
    }
  }
};

TEST_P(BindingLimit, RowsAreGatheredFromALargeTable) {
  for (const DType dtype : {DType::f32, DType::f16, DType::i8}) {
    const auto table = [&](DeviceContext* d) { return drawn({523, 71}, d, dtype); };
    const auto rows = [](DeviceContext* d) {
      return Tensor::from_vector(std::vector<int32_t>{0, 522, -1, 17, 261, 262, 17, -523, 300}, {3, 3}, d);
    };
    expect_same([&](DeviceContext* d) { return take(table(d), rows(d), 0); });
    expect_same([&](DeviceContext* d) { return take(transpose(table(d)), cast(rows(d), DType::i64), 1); });
    expect_same([&](DeviceContext* d) { return cast(take(table(d), rows(d), 0), DType::f32) * 3 + 1; });
    expect_same([&](DeviceContext* d) { return sum(cast(take(table(d), rows(d), 0), DType::f32), {-1}); }, 1e-5);
    expect_same([&](DeviceContext* d) {
      return concat({take(table(d), rows(d), 0), take(table(d), rows(d) + 0, 0)}, 1);
    });
  }
  expect_same([](DeviceContext* d) {
    return take(drawn({523, 71}, d), Tensor::from_vector(std::vector<int32_t>{}, {0}, d), 0);
  });
  expect_same([](DeviceContext* d) {
    const Tensor places = remainder(arange(0, 5 * 71, 1, DType::i32, d) * 37, 523);
    return gather(drawn({523, 71}, d), 0, reshape(places, {5, 71}));
  });
  // More is gathered than a binding covers, too.
  expect_same([](DeviceContext* d) {
    const Tensor rows = remainder(arange(0, 700, 1, DType::i32, d) * 37, 523);
    return take(drawn({523, 71}, d), rows, 0);
  });
}

TEST_P(BindingLimit, WhatIsNoNumberStaysInItsRow) {
  expect_same([](DeviceContext* d) {
    Tensor table = drawn({523, 71}, d);
    table = where(table > 3.5, std::numeric_limits<float>::quiet_NaN(), table);
    return take(table, Tensor::from_vector(std::vector<int32_t>{4, 511, 3}, {3}, d), 0);
  });
}

TEST_P(BindingLimit, ElementsAreComputedInSections) {
  const auto x = [](DeviceContext* d) { return drawn({257, 131}, d); };
  expect_same([&](DeviceContext* d) { return x(d) * 2 + x(d); });
  expect_same([&](DeviceContext* d) { return x(d) + slice(x(d), 0, {.stop = 1}) * slice(x(d), 1, {.stop = 1}); }, 1e-6);
  expect_same([&](DeviceContext* d) { return transpose(x(d)) + 1; });
  expect_same([&](DeviceContext* d) { return flip(x(d), {0, 1}) - x(d); });
  expect_same([&](DeviceContext* d) { return slice(x(d), 0, {.start = 3, .step = 2}) + 0.5; });
  expect_same([&](DeviceContext* d) { return concat({x(d), slice(x(d), 0, {.start = 40}), x(d) + 1}, 0); });
  expect_same([&](DeviceContext* d) { return concat({x(d), x(d) * 2}, 1); });
  expect_same([&](DeviceContext* d) { return pad(x(d), {{5, 1}, {0, 2}}, 7.0); });
  expect_same([&](DeviceContext* d) { return cast(x(d) > 0, DType::i8); });
  expect_same([&](DeviceContext* d) { return arange(0, 40000, 1, DType::i32, d) + 5; });
  expect_same([&](DeviceContext* d) { return reshape(x(d), {131 * 257}) * 1.5; });
  // One row alone is more than a binding covers.
  expect_same([&](DeviceContext* d) { return reshape(x(d), {1, 257 * 131}) - 2; });
  expect_same([&](DeviceContext* d) { return drawn({3, 20001}, d) + 1; });
}

// From the third set of sizes on, kernels do not depend on them (core/ir/dynamic_sizes.h).
TEST_P(BindingLimit, SizesVary) {
  for (const int64_t rows : {257, 290, 311, 199, 401}) {
    const auto x = [&](DeviceContext* d) { return drawn({rows, 67}, d); };
    expect_same([&](DeviceContext* d) { return x(d) * 2 + transpose(drawn({67, rows}, d)); });
    expect_same([&](DeviceContext* d) { return softmax(x(d), -1); }, 1e-6);
    expect_same([&](DeviceContext* d) { return matmul(drawn({3, 67}, d), transpose(x(d))); }, 1e-5);
    expect_same([&](DeviceContext* d) {
      return take(x(d), Tensor::from_vector(std::vector<int32_t>{0, -1, 200, 17}, {4}, d), 0) + 1;
    });
  }
}

TEST_P(BindingLimit, AStretchOfALargeStorageIsBoundAlone) {
  expect_same([](DeviceContext* d) {
    const Tensor x = drawn({301, 97}, d);
    eval({x});
    return slice(x, 0, {.start = 5, .stop = 9}) * 2 + slice(x, 0, {.stop = 4});
  });
  expect_same([](DeviceContext* d) {
    const Tensor x = drawn({301, 97}, d);
    eval({x});
    return cumsum(slice(x, 0, {.stop = 4}), 1);
  });
}

TEST_P(BindingLimit, RowsAreReducedInSections) {
  const auto x = [](DeviceContext* d) { return drawn({301, 97}, d); };
  expect_same([&](DeviceContext* d) { return softmax(x(d), -1); }, 1e-6);
  expect_same([&](DeviceContext* d) { return sum(x(d), {1}); }, 1e-5);
  expect_same([&](DeviceContext* d) { return sum(x(d), {0}); }, 1e-5);
  expect_same([&](DeviceContext* d) { return sum(x(d) * x(d)); }, 1e-5);
  expect_same([&](DeviceContext* d) { return argmax(x(d), 1); });
  expect_same([&](DeviceContext* d) { return max(x(d), {0}); });
  expect_same([&](DeviceContext* d) { return x(d) - mean(x(d), {1}, true); }, 1e-5);
}

TEST_P(BindingLimit, ProductsAreCutAlongRowsColumnsAndDepth) {
  const auto a = [](DeviceContext* d) { return drawn({131, 67}, d); };
  const auto b = [](DeviceContext* d) { return drawn({259, 67}, d); };
  expect_same([&](DeviceContext* d) { return relu(matmul(a(d), transpose(b(d))) + 1); }, 1e-5);
  expect_same([&](DeviceContext* d) { return matmul(slice(a(d), 0, {.stop = 3}), transpose(b(d))); }, 1e-5);
  expect_same([&](DeviceContext* d) { return matmul(drawn({3, 259}, d), b(d)); }, 1e-5);
  expect_same([&](DeviceContext* d) { return matmul(transpose(b(d)), drawn({259, 5}, d)); }, 1e-5);
  expect_same([&](DeviceContext* d) { return matmul(drawn({5, 40, 67}, d), drawn({5, 67, 33}, d)); }, 1e-5);
  expect_same([&](DeviceContext* d) { return matmul(drawn({5, 80, 67}, d), transpose(b(d))); }, 1e-5);
  // A stretch of rows of the table.
  expect_same([&](DeviceContext* d) { return matmul(a(d), transpose(slice(b(d), 0, {.start = 201}))); }, 1e-5);
}

TEST_P(BindingLimit, PackedRowsAreMultipliedAndGathered) {
  for (const GgmlType type : {GgmlType::q8_0, GgmlType::q4_0}) {
    const std::vector<uint8_t> bytes = test::random_blocks(type, 515 * 96, 7);
    const auto blocks = [&](DeviceContext* d) {
      return Tensor::from_bytes(bytes.data(), bytes.size(), DType::u8, packed_shape({515, 96}, type), d);
    };
    expect_same([&](DeviceContext* d) { return matmul_packed(drawn({3, 96}, d), blocks(d), type) * 2; }, 1e-4);
    expect_same([&](DeviceContext* d) { return matmul_packed(drawn({70, 96}, d), blocks(d), type); }, 1e-4);
    expect_same([&](DeviceContext* d) { return unpack_blocks(blocks(d), type); }, 1e-6);
    expect_same(
        [&](DeviceContext* d) {
          const Tensor rows = Tensor::from_vector(std::vector<int32_t>{514, 0, 255, 256, -2}, {5}, d);
          return unpack_blocks(take(blocks(d), rows, 0), type);
        },
        1e-6);
  }
}

// The whole of an embedding's training: rows gathered, their gradient scattered, the table updated where it lies.
TEST_P(BindingLimit, ATableIsTrained) {
  expect_same(
      [](DeviceContext* d) {
        Tensor table = drawn({523, 72}, d);
        const Tensor weights = drawn({6, 72}, d);
        table.set_requires_grad(true);
        nn::AdamW optimizer({table}, {.lr = 0.1, .weight_decay = 0.01});
        for (int step = 0; step < 3; ++step) {
          const Tensor rows = Tensor::from_vector(std::vector<int32_t>{step, 522, 17, 17, 300, 261}, {6}, d);
          optimizer.zero_grad();
          backward(sum(take(table, rows, 0) * weights));
          optimizer.step();
        }
        return table;
      },
      1e-4);
}

TEST_P(BindingLimit, CrossEntropyOverStretchesOfALargeHead) {
  const auto trained = [](DeviceContext* d) {
    Tensor x = drawn({9, 40}, d) / 8, weight = drawn({523, 40}, d) / 8;
    x.set_requires_grad(true);
    weight.set_requires_grad(true);
    const Tensor targets = Tensor::from_vector(std::vector<int32_t>{0, 522, 5, 128, 127, 300, 400, 511, 512}, {9}, d);
    const Tensor loss = nn::linear_cross_entropy(x, weight, targets, {.stretch = 64});
    backward(loss);
    return std::vector<Tensor>{loss, x.grad(), weight.grad()};
  };
  for (const size_t part : {0, 1, 2}) expect_same([&](DeviceContext* d) { return trained(d)[part]; }, 1e-5);
}

TEST_P(BindingLimit, ItIsLaunchedInSections) {
  const Tensor x = drawn({257, 131}, &device());
  eval({x});
  const uint64_t before = device().counters().kernels;
  eval({x * 2});
  const uint64_t most = device().caps().max_binding_bytes, bytes = 257 * 131 * 4;
  EXPECT_GE(device().counters().kernels - before, (bytes + most - 1) / most);
}

TEST_P(BindingLimit, WhatCannotBeCutIsRefused) {
  const Tensor x = drawn({2, 20001}, &device());
  expect_error<LimitError>([&] { eval({cumsum(x, 1)}); }, {"160008", "max_binding_bytes", "binding_limit_test.cpp"});
}

HEDDLE_DEVICE_TESTS(BindingLimit);

}  // namespace
}  // namespace heddle::tests
