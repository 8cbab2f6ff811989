// Concats whose long parts are computed: each is written where it belongs by whoever computes it. Values beside those
// of the parts by themselves, and which kernels there are.
#include <functional>
#include <utility>
#include <vector>

#include "heddle/core/device/locked_device.h"
#include "heddle/heddle.h"
#include "tests/support/device_test.h"

namespace heddle::tests {
namespace {

constexpr int64_t part_rows = 83, part_width = 61;  // 5,063 elements

class LongConcat : public DeviceTest {
 protected:
  void SetUp() override {
    x = drawn({part_rows, part_width}, 1);
    y = drawn({part_rows, part_width}, 2);
    w = drawn({part_width, part_width}, 3);
    eval({x, y, w});
  }
  using Make = std::function<std::vector<Tensor>()>;
  // Each part is looked at by itself.
  static std::vector<float> in_turn(const Make& make) {
    std::vector<float> all;
    for (size_t i = 0; i < make().size(); ++i) {
      const std::vector<float> part = make()[i].to_vector<float>();
      all.insert(all.end(), part.begin(), part.end());
    }
    return all;
  }
  static void expect_same(const std::vector<float>& found, const std::vector<float>& expected) {
    ASSERT_EQ(found.size(), expected.size());
    for (size_t i = 0; i < found.size(); ++i)
      ASSERT_NEAR(found[i], expected[i], 1e-5 * (1 + std::abs(expected[i]))) << i;
  }
  uint64_t kernels_of(const std::function<void()>& work) const {
    const uint64_t before = device().counters().kernels;
    work();
    return device().counters().kernels - before;
  }

  Tensor x, y, w;
};

TEST_P(LongConcat, HoldsItsParts) {
  const Make arithmetic = [&] { return std::vector{x * 2.0 + y, exp(y), x - y}; };
  const Make products = [&] { return std::vector{matmul(x, w) * 0.5, matmul(y, w), x * y}; };
  const Make views = [&] {
    return std::vector{reshape(transpose(exp(x)), {part_rows, part_width}),
                       slice(exp(concat({x, y}, 0)), 0, {5, 5 + part_rows})};
  };
  const Make uneven = [&] {
    return std::vector{x + 1.0, slice(y * 2.0, 0, {3, 3}), slice(y * 3.0, 0, {0, 1}), concat({y, x, y}, 0) * 4.0};
  };
  for (const Make& make : {arithmetic, products, views, uneven}) {
    const Tensor all = concat(make(), 0);  // nobody holds the parts any more
    expect_same(all.to_vector<float>(), in_turn(make));
  }
  // Along another dimension where those before it have one position.
  const auto lead = [&](const Tensor& part) { return unsqueeze(part, 0); };
  expect_same(concat({lead(x * 2.0), lead(exp(y))}, 1).to_vector<float>(), in_turn([&] {
                return std::vector{x * 2.0, exp(y)};
              }));
}

// A part that others read as well, the same part twice, and a concat that is read at other places.
// Of several sizes, one of them none, one a view, one read by others as well; and a scalar.
TEST_P(LongConcat, StoredPartsOfManySizes) {
  const Tensor turned = transpose(x);
  const Make parts = [&] {
    return std::vector{reshape(x, {-1}),
                       reshape(w, {-1}),
                       slice(reshape(y, {-1}), 0, {7, 7}),
                       reshape(turned, {-1}),
                       reshape(y, {-1}),
                       slice(reshape(x, {-1}), 0, {3, 5000}),
                       reshape(full(Shape(), 3.5, DType::f32, &device()), {1})};
  };
  const Tensor all = concat(parts(), 0), sums = y + 1.0, scaled = all * 2.0;
  eval({all, sums, scaled});
  expect_same(all.to_vector<float>(), in_turn(parts));
  expect_same(sums.to_vector<float>(), (y + 1.0).to_vector<float>());
  expect_same((scaled * 0.5).to_vector<float>(), in_turn(parts));
}

TEST_P(LongConcat, PartsHaveOtherReaders) {
  const Tensor shared = tanh(x) * 3.0, all = concat({shared, y * 2.0, shared}, 0);
  const Tensor total = sum(shared, {0}), picked = slice(all, 0, {part_rows - 2, 2 * part_rows + 5}) + 1.0,
               grown = matmul(all, w);
  eval({all, total, picked, grown});
  const Make parts = [&] { return std::vector{tanh(x) * 3.0, y * 2.0, tanh(x) * 3.0}; };
  const std::vector<float> expected = in_turn(parts);
  expect_same(all.to_vector<float>(), expected);
  expect_same(total.to_vector<float>(), sum(tanh(x) * 3.0, {0}).to_vector<float>());
  std::vector<float> shifted(expected.begin() + (part_rows - 2) * part_width,
                             expected.begin() + (2 * part_rows + 5) * part_width);
  for (float& value : shifted) value += 1;
  expect_same(picked.to_vector<float>(), shifted);
  expect_same(grown.to_vector<float>(), in_turn([&] {
                return std::vector{matmul(tanh(x) * 3.0, w), matmul(y * 2.0, w), matmul(tanh(x) * 3.0, w)};
              }));
}

// What is assigned reads the old value: parts are written when nobody reads it any more.
TEST_P(LongConcat, AssignedOverWhatItsPartsRead) {
  Tensor list = drawn({2 * part_rows, part_width}, 4);
  const std::vector<float> old = list.to_vector<float>();
  const Tensor first = slice(list, 0, {0, part_rows}), second = slice(list, 0, {part_rows, 2 * part_rows});
  list.assign(concat({second * 2.0, first + second}, 0));
  const std::vector<float> found = list.to_vector<float>();
  const auto half = static_cast<size_t>(part_rows * part_width);
  for (size_t i = 0; i < half; ++i) {
    ASSERT_NEAR(found[i], 2 * old[half + i], 1e-6) << i;
    ASSERT_NEAR(found[half + i], old[i] + old[half + i], 1e-5) << i;
  }
}

// The list's memory is its own, and is written where it lies; parts that are computed first must not be there yet.
TEST_P(LongConcat, AssignedInPlaceWhileTheOldValueIsRead) {
  const auto fresh = [&] { return drawn({2 * part_rows, part_width}, 4); };
  Tensor list = fresh(), halves = fresh();
  const Make parts = [&] { return std::vector{matmul(x, w), exp(y)}; };
  const Tensor joined = concat(parts(), 0), total = sum(list, {0}), doubled = matmul(list, w);
  list.assign(joined);
  eval({list, total, doubled});
  expect_same(total.to_vector<float>(), sum(fresh(), {0}).to_vector<float>());
  expect_same(doubled.to_vector<float>(), matmul(fresh(), w).to_vector<float>());
  expect_same(list.to_vector<float>(), in_turn(parts));
  // Each part reads the half that the other one is written to.
  const auto exchanged = [&](const Tensor& of) {
    return std::vector{slice(of * 2.0, 0, {part_rows, 2 * part_rows}), slice(matmul(of, w), 0, {0, part_rows})};
  };
  halves.assign(concat(exchanged(halves), 0));
  expect_same(halves.to_vector<float>(), in_turn([&] { return exchanged(fresh()); }));
}

// A list that nobody reads is written part by part, constants too, and no kernel copies it.
TEST_P(LongConcat, IsWrittenWhereItIsAssigned) {
  Tensor list = drawn({3 * part_rows, part_width}, 4), padded = drawn({3 * part_rows + 1, part_width}, 5);
  const Make products = [&] { return std::vector{matmul(x, w) * 0.5, matmul(y, w), matmul(x - y, w)}; };
  const Make with_room = [&] {
    std::vector<Tensor> parts = products();
    parts.push_back(zeros({1, part_width}, DType::f32, &device()));
    return parts;
  };
  const uint64_t apart = kernels_of([&] { eval(products()); });
  const auto kernels_of_assigned = [&](Tensor& to, const Make& make) {
    to.assign(concat(make(), 0));
    return kernels_of([&] { eval({to}); });
  };
  EXPECT_EQ(kernels_of_assigned(list, products), apart);
  EXPECT_LE(kernels_of_assigned(padded, with_room), apart + 1);
  expect_same(list.to_vector<float>(), in_turn(products));
  expect_same(padded.to_vector<float>(), in_turn(with_room));
  // Where it is held by another name as well, and where a second one gets the same.
  const Tensor joined = concat(products(), 0);
  list.assign(joined);
  Tensor other = drawn({3 * part_rows, part_width}, 6);
  other.assign(joined);
  eval({list, joined, other});
  for (const Tensor& each : {list, joined, other}) expect_same(each.to_vector<float>(), in_turn(products));
}

// No kernel looks which part an element is of.
TEST_P(LongConcat, HasNoKernelOfItsOwn) {
  const auto kernels_of_joined = [&](const Make& make) {
    const Tensor all = concat(make(), 0);
    return kernels_of([&] { eval({all}); });
  };
  const uint64_t apart = kernels_of([&] { eval({matmul(x, w) * 0.5, matmul(y, w) * 0.5}); });
  EXPECT_EQ(kernels_of_joined([&] { return std::vector{matmul(x, w) * 0.5, matmul(y, w) * 0.5}; }), apart);
}

HEDDLE_DEVICE_TESTS(LongConcat);

}  // namespace
}  // namespace heddle::tests
