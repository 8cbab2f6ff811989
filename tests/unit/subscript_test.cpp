// x[...]: every slice against a walk over positions, written-out cases, what is refused and what does not compile.
#include "heddle/core/graph/subscript.h"

#include <gtest/gtest.h>

#include <limits>
#include <type_traits>

#include "heddle/autograd/autograd.h"
#include "heddle/core/functions/functions.h"
#include "heddle/core/graph/node.h"
#include "tests/support/reference_device.h"
#include "tests/unit/refused.h"

namespace heddle {
namespace {

using tests::reference;

Tensor counted(const Shape& shape) {
  return reshape(arange(0, static_cast<double>(shape.numel()), 1, DType::i32, &reference()), shape);
}
std::vector<int> integers(const Tensor& x) { return x.to_vector<int>(); }

// Nothing can be written through a part, or into any other temporary.
using Part = decltype(std::declval<Tensor&>()[0]);
static_assert(!std::is_assignable_v<Part, Tensor> && !std::is_assignable_v<Part, const Tensor&>);
static_assert(!std::is_assignable_v<Tensor, Tensor> && !std::is_assignable_v<Tensor, const Tensor&>);
static_assert(std::is_copy_assignable_v<Tensor> && std::is_nothrow_move_assignable_v<Tensor>);
template <class T>
constexpr bool adds_in_place = requires(T&& x) {
  std::forward<T>(x) += 1.0;
};
template <class T>
constexpr bool assigns = requires(T&& x, const Tensor& y) {
  std::forward<T>(x).assign(y);
};
static_assert(adds_in_place<Tensor&> && !adds_in_place<Tensor> && !adds_in_place<Part>);
static_assert(assigns<Tensor&> && !assigns<Part>);
// Indices are whole numbers.
static_assert(std::is_convertible_v<int, Subscript> && std::is_convertible_v<size_t, Subscript>);
static_assert(!std::is_convertible_v<double, Subscript> && !std::is_convertible_v<bool, Subscript>);

TEST(Subscript, AnIndexTakesOneElementOfTheFirstAxis) {
  const Tensor x = counted({3, 2});
  EXPECT_EQ(x[1].shape(), (Shape{2}));
  EXPECT_EQ(integers(x[0]), (std::vector<int>{0, 1}));
  EXPECT_EQ(integers(x[-1]), (std::vector<int>{4, 5}));
  EXPECT_EQ(integers(x[size_t{2}]), (std::vector<int>{4, 5}));
  EXPECT_EQ(x[2][1].shape(), Shape{});
  EXPECT_EQ(x[2][-2].item<int>(), 4);
  EXPECT_EQ((x[{2, 0}].item<int>()), 4);
}

// Python's definition: positions start, start + step, ... up to the bound, which count from the end when negative.
std::vector<int> walked(int size, const Slice& s) {
  const bool up = s.step > 0;
  const auto bound = [&](const std::optional<int64_t>& given, int64_t otherwise) {
    if (!given) return otherwise;
    const int64_t at = *given < 0 ? *given + size : *given;
    return up ? std::min<int64_t>(std::max<int64_t>(at, 0), size)
              : std::min<int64_t>(std::max<int64_t>(at, -1), size - 1);
  };
  const int64_t from = bound(s.start, up ? 0 : size - 1), to = bound(s.stop, up ? size : -1);
  std::vector<int> result;
  for (int64_t i = from; up ? i < to : i > to; i += s.step) result.push_back(static_cast<int>(i));
  return result;
}

TEST(Subscript, SlicesAreThoseOfPython) {
  std::vector<std::optional<int64_t>> bounds{{}};
  for (int64_t b = -6; b <= 6; ++b) bounds.emplace_back(b);
  for (const int size : {0, 1, 4}) {
    const Tensor x = counted({size});
    for (const auto& start : bounds) {
      for (const auto& stop : bounds) {
        for (const int64_t step : {-5, -2, -1, 1, 2, 5}) {
          const Slice s{start, stop, step};
          ASSERT_EQ(integers(x[s]), walked(size, s))
              << size << ": " << start.value_or(99) << " " << stop.value_or(99) << " " << step;
        }
      }
    }
  }
}

// Expected by NumPy: np.arange(24).reshape(2, 3, 4)[...].
TEST(Subscript, ItemsTakeTheAxesInOrder) {
  const Tensor x = counted({2, 3, 4});
  const auto check = [](const Tensor& part, const Shape& shape, const std::vector<int>& expected) {
    EXPECT_EQ(part.shape(), shape);
    EXPECT_EQ(integers(part), expected);
  };
  check(x[{1, Slice{1, 3}, -1}], {2}, {19, 23});
  check(x[{Slice{}, 0, Slice{.step = -2}}], {2, 2}, {3, 1, 15, 13});
  check(x[{ellipsis, 2}], {2, 3}, {2, 6, 10, 14, 18, 22});
  check(x[{0, ellipsis, Slice{3}}], {3, 1}, {3, 7, 11});
  check(x[{1, 2, 3, ellipsis}], {}, {23});
  check(x[{new_axis, 1, 0}], {1, 4}, {12, 13, 14, 15});
  check(x[{1, new_axis, 0, new_axis, ellipsis, new_axis}], {1, 1, 4, 1}, {12, 13, 14, 15});
  check(x[{Slice{2}, ellipsis}], {0, 3, 4}, {});
  check(x[ellipsis], {2, 3, 4}, integers(x));
  check(x[{}], {2, 3, 4}, integers(x));
  check(x[new_axis][0][1][2], {4}, {20, 21, 22, 23});
  check(counted({})[{}], {}, {0});
  check(counted({})[new_axis], {1}, {0});
  // A view without row-major order, computed and not.
  const Tensor turned = transpose(flip(x, {1}), 0, 2);
  check(turned[{3, Slice{.step = 2}}], {2, 2}, {11, 23, 3, 15});
  eval({turned});
  check(turned[{3, Slice{.step = 2}}], {2, 2}, {11, 23, 3, 15});
}

TEST(Subscript, RefusesWhatHasNoMeaning) {
  const Tensor x = counted({3, 2});
  test::expect_refused({
      {[&] { return x[3]; }, "[index] 3 is out of range for axis 0 of (3, 2)"},
      {[&] { return x[-4]; }, "[index] -4 is out of range for axis 0 of (3, 2)"},
      {[&] { return x[std::numeric_limits<int64_t>::min()]; }, "is out of range"},
      {[&] { return x[std::numeric_limits<size_t>::max()]; }, "is out of range"},  // size() - 1 of nothing
      {[&] {
         return x[{Slice{}, 2}];
       },
       "[index] 2 is out of range for axis 1 of (3, 2)"},
      {[&] {
         return x[{ellipsis, 5}];
       },
       "[index] 5 is out of range for axis 1 of (3, 2)"},
      {[&] {
         return x[{0, 0, 0}];
       },
       "[index] 3 indices and slices for (3, 2); at most one an axis"},
      {[&] {
         return x[{ellipsis, 0, ellipsis}];
       },
       "[index] more than one ellipsis"},
      {[&] { return x[Slice{.step = 0}]; }, "[slice] the step is 0"},
      {[&] { return counted({})[0]; }, "[index] 1 indices and slices for ()"},
      {[&] { return counted({0})[0]; }, "[index] 0 is out of range for axis 0 of (0)"},
      {[&] {
         return x[{new_axis, new_axis, new_axis, new_axis, new_axis, new_axis, new_axis}];
       },
       "8"},
      {[] { return Tensor()[0]; }, "[tensor] this handle is empty"},
  });
}

TEST(Subscript, GradientsReachThePickedElements) {
  Tensor x = Tensor::from_vector<float>({1, 2, 3, 4, 5, 6}, {2, 3}, &reference());
  x.set_requires_grad();
  backward(sum(x[{Slice{}, Slice{.step = -2}}] * x[{1, 2}]));
  // d of (x00 + x02 + x10 + x12) x12: x12 for each, and their sum for x12 itself.
  EXPECT_EQ(x.grad().to_vector<float>(), (std::vector<float>{6, 0, 6, 6, 0, 6 + 14}));
}

TEST(Subscript, AFailingReadNamesTheLineOfTheBrackets) {
  const Tensor x = counted({3});
  const Tensor part = (x + 1)[Slice{1}];
  const unsigned line = __LINE__ - 1;
  EXPECT_EQ(part.node()->where.str(), "subscript_test.cpp:" + std::to_string(line));
}

}  // namespace
}  // namespace heddle
