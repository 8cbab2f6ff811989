#include "heddle/core/base/shape.h"

#include <gtest/gtest.h>

#include "heddle/core/base/error.h"

namespace heddle {
namespace {

template <class F>
std::string shape_error_of(F&& f) {
  try {
    f();
  } catch (const ShapeError& e) {
    return e.what();
  }
  return "no ShapeError";
}

TEST(Shape, Facts) {
  const Shape scalar;
  EXPECT_EQ(scalar.rank(), 0);
  EXPECT_EQ(scalar.numel(), 1);
  EXPECT_EQ(scalar.str(), "()");
  const Shape s{2, 3, 4};
  EXPECT_EQ(s.rank(), 3);
  EXPECT_EQ(s.numel(), 24);
  EXPECT_EQ(s.str(), "(2, 3, 4)");
  EXPECT_EQ(s.dim(-1), 4);
  EXPECT_EQ(s.dim(0), 2);
  EXPECT_EQ((Shape{5, 0}).numel(), 0);
  EXPECT_EQ((Shape{1, 1, 1, 1, 1, 1, 1, 1}).rank(), 8);
  EXPECT_TRUE(s == (Shape{2, 3, 4}));
  EXPECT_FALSE(s == (Shape{2, 3}));
  EXPECT_FALSE(s == (Shape{2, 4, 3}));
}

TEST(Shape, Edits) {
  const Shape s{2, 3, 4};
  EXPECT_EQ(s.with(1, 7), (Shape{2, 7, 4}));
  EXPECT_EQ(s.with(-1, 7), (Shape{2, 3, 7}));
  EXPECT_EQ(s.without(0), (Shape{3, 4}));
  EXPECT_EQ(s.without(-1), (Shape{2, 3}));
  EXPECT_EQ(s.inserted(0, 9), (Shape{9, 2, 3, 4}));
  EXPECT_EQ(s.inserted(3, 9), (Shape{2, 3, 4, 9}));
  EXPECT_EQ(s.inserted(-1, 9), (Shape{2, 3, 4, 9}));
  Shape grown;
  grown.push_back(5);
  grown.push_back(0);
  EXPECT_EQ(grown, (Shape{5, 0}));
}

TEST(Shape, Refusals) {
  EXPECT_EQ(shape_error_of([] { Shape{2, -3}; }), "[shape] negative dimension -3 in (2, -3)");
  EXPECT_EQ(shape_error_of([] { Shape{1, 1, 1, 1, 1, 1, 1, 1, 1}; }),
            "[shape] (1, 1, 1, 1, 1, 1, 1, 1, 1) has 9 dimensions; at most 8 are supported");
  EXPECT_EQ(shape_error_of([] {
              Shape{int64_t{1} << 40, int64_t{1} << 40};
            }),
            "[shape] the number of elements of (1099511627776, 1099511627776) does not fit 64 bits");
  EXPECT_EQ((Shape{int64_t{1} << 40, 0, int64_t{1} << 40}).numel(), 0);
  EXPECT_EQ(shape_error_of([] { (Shape{2, 3}).dim(2); }), "[dim] axis 2 is out of range for 2 dimensions");
  EXPECT_EQ(shape_error_of([] {
              (Shape{1, 1, 1, 1, 1, 1, 1, 1}).inserted(0, 1);
            }),
            "[shape] (1, 1, 1, 1, 1, 1, 1, 1) already has 8 dimensions");
}

TEST(Shape, Axes) {
  EXPECT_EQ(normalize_axis(-1, 3, "op"), 2);
  EXPECT_EQ(normalize_axis(0, 3, "op"), 0);
  EXPECT_EQ(shape_error_of([] { normalize_axis(3, 3, "sum"); }), "[sum] axis 3 is out of range for 3 dimensions");
  EXPECT_EQ(shape_error_of([] { normalize_axis(-2, 1, "sum"); }), "[sum] axis -2 is out of range for 1 dimension");
  EXPECT_EQ(shape_error_of([] { normalize_axis(0, 0, "sum"); }), "[sum] axis 0 is out of range for 0 dimensions");
  EXPECT_EQ(normalize_axes({}, 3, "op"), (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(normalize_axes({-1, 0}, 3, "op"), (std::vector<int>{0, 2}));
  EXPECT_EQ(shape_error_of([] { normalize_axes({1, -1}, 2, "max"); }), "[max] axis 1 is given twice");
}

TEST(Shape, Broadcast) {
  EXPECT_EQ(broadcast_shapes({2, 3}, {2, 3}, "add"), (Shape{2, 3}));
  EXPECT_EQ(broadcast_shapes({5, 1, 4}, {3, 1}, "add"), (Shape{5, 3, 4}));
  EXPECT_EQ(broadcast_shapes({}, {7}, "add"), (Shape{7}));
  EXPECT_EQ(broadcast_shapes({1}, {0, 4}, "add"), (Shape{0, 4}));
  EXPECT_EQ(broadcast_shapes({0}, {1}, "add"), (Shape{0}));
  EXPECT_EQ(shape_error_of([] {
              broadcast_shapes({32, 10}, {32}, "add");
            }),
            "[add] shapes (32, 10) and (32) do not broadcast: 10 beside 32 in dimension 1 from the end (they must be "
            "equal or one of them 1)");
  EXPECT_NE(shape_error_of([] { broadcast_shapes({0}, {2}, "add"); }), "no ShapeError");
}

TEST(Shape, RowMajorStrides) {
  const auto strides = row_major_strides({2, 3, 4});
  EXPECT_EQ(strides[0], 12);
  EXPECT_EQ(strides[1], 4);
  EXPECT_EQ(strides[2], 1);
}

}  // namespace
}  // namespace heddle
