// Views against an oracle: the list of buffer indices that a view must reach, moved around element by element.
#include "heddle/core/base/view.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "heddle/core/base/error.h"

namespace heddle {
namespace {

// An array whose elements are buffer indices, in row-major order.
struct Oracle {
  Shape shape;
  std::vector<int64_t> at;
};

// Every position of a shape, in row-major order.
template <class F>
void for_each(const Shape& shape, F&& f) {
  std::vector<int64_t> position(static_cast<size_t>(shape.rank()));
  for (int64_t n = 0; n < shape.numel(); ++n) {
    int64_t rest = n;
    for (int i = shape.rank() - 1; i >= 0; --i) {
      position[static_cast<size_t>(i)] = rest % shape[i];
      rest /= shape[i];
    }
    f(position);
  }
}

std::vector<int64_t> indices(const View& view) {
  std::vector<int64_t> result;
  for_each(view.shape, [&](const std::vector<int64_t>& p) { result.push_back(view.index(p)); });
  return result;
}

// The oracle's array with each position of `shape` taken from `source(position)`.
template <class F>
Oracle remap(const Oracle& from, const Shape& shape, F&& source) {
  const auto strides = row_major_strides(from.shape);
  Oracle result{shape, {}};
  for_each(shape, [&](const std::vector<int64_t>& p) {
    const std::vector<int64_t> q = source(p);
    int64_t linear = 0;
    for (size_t i = 0; i < q.size(); ++i) linear += q[i] * strides[i];
    result.at.push_back(from.at[static_cast<size_t>(linear)]);
  });
  return result;
}

class Walk {
 public:
  explicit Walk(uint32_t seed) : random_(seed) {
    Shape shape;
    const int rank = pick(0, 4);
    for (int i = 0; i < rank; ++i) shape.push_back(pick(0, 9) == 0 ? pick(0, 1) : pick(1, 5));
    view_ = View::dense(shape);
    oracle_.shape = shape;
    oracle_.at.resize(static_cast<size_t>(shape.numel()));
    std::iota(oracle_.at.begin(), oracle_.at.end(), 0);
  }

  void step() {
    switch (pick(0, 4)) {
      case 0:
        return permute();
      case 1:
        return slice();
      case 2:
        return flip();
      case 3:
        return expand();
      default:
        return reshape();
    }
  }

  void check() const {
    ASSERT_EQ(view_.shape, oracle_.shape);
    ASSERT_EQ(indices(view_), oracle_.at) << view_.str();
    const auto [low, high] = view_.extent();
    if (oracle_.at.empty()) {
      ASSERT_GT(low, high);
    } else {
      const auto [least, most] = std::minmax_element(oracle_.at.begin(), oracle_.at.end());
      ASSERT_EQ(low, *least);
      ASSERT_EQ(high, *most);
    }
    std::vector<int64_t> counting(oracle_.at.size());
    std::iota(counting.begin(), counting.end(), 0);
    if (!oracle_.at.empty()) {
      ASSERT_EQ(view_.is_dense(), oracle_.at == counting) << view_.str();
    }
  }

 private:
  int pick(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }
  int rank() const { return view_.shape.rank(); }

  void permute() {
    std::vector<int> order(static_cast<size_t>(rank()));
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random_);
    const View moved = view_.permute(order);
    oracle_ = remap(oracle_, moved.shape, [&](const std::vector<int64_t>& p) {
      std::vector<int64_t> q(p.size());
      for (size_t i = 0; i < p.size(); ++i) q[static_cast<size_t>(order[i])] = p[i];
      return q;
    });
    view_ = moved;
  }

  void slice() {
    std::vector<int64_t> start, step;
    Shape counts;
    for (int i = 0; i < rank(); ++i) {
      const int size = static_cast<int>(view_.shape[i]);
      if (size == 0) {
        start.push_back(0), step.push_back(1), counts.push_back(0);
        continue;
      }
      const int first = pick(0, size - 1);
      const int stride = pick(1, 3) * (pick(0, 1) ? 1 : -1);
      const int most = stride > 0 ? (size - 1 - first) / stride + 1 : first / -stride + 1;
      start.push_back(first), step.push_back(stride), counts.push_back(pick(pick(0, 5) == 0 ? 0 : 1, most));
    }
    const View moved = view_.slice(start, step, counts);
    oracle_ = remap(oracle_, counts, [&](std::vector<int64_t> p) {
      for (size_t i = 0; i < p.size(); ++i) p[i] = start[i] + p[i] * step[i];
      return p;
    });
    view_ = moved;
  }

  void flip() {
    std::vector<int> axes;
    for (int i = 0; i < rank(); ++i) {
      if (pick(0, 1)) axes.push_back(i);
    }
    const View moved = view_.flip(axes);
    oracle_ = remap(oracle_, moved.shape, [&](std::vector<int64_t> p) {
      for (int axis : axes) p[static_cast<size_t>(axis)] = moved.shape[axis] - 1 - p[static_cast<size_t>(axis)];
      return p;
    });
    view_ = moved;
  }

  void expand() {
    Shape grown;
    for (int64_t d : view_.shape) grown.push_back(d == 1 ? pick(0, 3) : d);
    const Shape before = view_.shape;
    const View moved = view_.expand(grown);
    oracle_ = remap(oracle_, grown, [&](std::vector<int64_t> p) {
      for (size_t i = 0; i < p.size(); ++i) p[i] = before[static_cast<int>(i)] == 1 ? 0 : p[i];
      return p;
    });
    view_ = moved;
  }

  // Factors of the number of elements, with ones strewn in.
  void reshape() {
    Shape target;
    int64_t rest = view_.shape.numel();
    while (rest > 1 && target.rank() < 5) {
      int64_t factor = 2;
      while (rest % factor != 0) ++factor;
      if (pick(0, 1) && target.rank() < 4) factor = rest % (factor * 2) == 0 ? factor * 2 : factor;
      if (pick(0, 3) == 0) target.push_back(1);
      target.push_back(target.rank() >= 4 ? rest : factor);
      rest /= target[target.rank() - 1];
    }
    if (view_.shape.numel() == 0) target = Shape{3, 0, 2};
    const auto moved = view_.reshape(target);
    if (moved) {
      ASSERT_EQ(moved->shape, target);
      oracle_.shape = target;
      view_ = *moved;
    } else {
      // There must be none: no strides reach these elements in this shape.
      ASSERT_FALSE(affine(target)) << view_.str() << " to " << target.str();
    }
  }

  // Whether offset + sum of stride * position can give the oracle's elements in `shape`.
  bool affine(const Shape& shape) const {
    View guess{oracle_.at[0], shape, {}};
    const auto steps = row_major_strides(shape);
    for (int i = 0; i < shape.rank(); ++i) {
      const auto a = static_cast<size_t>(i);
      if (shape[i] > 1) guess.strides[a] = oracle_.at[static_cast<size_t>(steps[a])] - oracle_.at[0];
    }
    return indices(guess) == oracle_.at;
  }

  std::mt19937 random_;
  View view_;
  Oracle oracle_;
};

TEST(View, RandomCompositionsReachTheRightElements) {
  for (uint32_t seed = 0; seed < 3000; ++seed) {
    SCOPED_TRACE(seed);
    Walk walk(seed);
    for (int i = 0; i < 6; ++i) {
      walk.step();
      walk.check();
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
}

TEST(View, ReshapeFindsViews) {
  const View dense = View::dense({4, 6});
  EXPECT_EQ(dense.reshape({24})->strides[0], 1);
  EXPECT_EQ(dense.reshape({2, 2, 3, 2})->str(), "(2, 2, 3, 2) strides (12, 6, 2, 1) offset 0");
  const int order[] = {1, 0};
  const View turned = dense.permute(order);
  EXPECT_FALSE(turned.reshape({24}));
  EXPECT_EQ(turned.reshape({2, 3, 4})->str(), "(2, 3, 4) strides (3, 1, 6) offset 0");
  EXPECT_EQ(turned.reshape({6, 1, 2, 2})->str(), "(6, 1, 2, 2) strides (1, 24, 12, 6) offset 0");
  EXPECT_FALSE(dense.reshape({5, 5}));
  const int both[] = {0, 1};
  const View back = dense.flip(both);
  EXPECT_EQ(back.reshape({24})->str(), "(24) strides (-1) offset 23");
  const View repeated = View::dense({1, 3}).expand({4, 3});
  EXPECT_EQ(repeated.reshape({2, 2, 3})->str(), "(2, 2, 3) strides (0, 0, 1) offset 0");
  EXPECT_FALSE(repeated.reshape({12}));
  EXPECT_EQ(View::dense({}).reshape({1, 1})->shape, (Shape{1, 1}));
  EXPECT_EQ(View::dense({0, 4}).reshape({2, 0, 9})->shape, (Shape{2, 0, 9}));
}

TEST(View, ExpandRefuses) {
  EXPECT_THROW(View::dense({2, 3}).expand({4, 3}), ShapeError);
  EXPECT_THROW(View::dense({3}).expand({4, 3}), ShapeError);
}

TEST(View, EqualityIgnoresUnusedStrides) {
  View a = View::dense({3});
  View b = a;
  b.strides[5] = 77;
  EXPECT_TRUE(a == b);
  b.offset = 1;
  EXPECT_FALSE(a == b);
}

}  // namespace
}  // namespace heddle
