// Shape: up to eight non-negative int64 dimensions, held inline.
//
// Invariants: rank() <= Shape::max_rank, no negative dimension, numel() fits int64 (checked when made).
// Thread safety: plain value.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

namespace heddle {

class Shape {
 public:
  static constexpr int max_rank = 8;

  Shape() = default;  // scalar, rank 0
  Shape(std::initializer_list<int64_t> dims);
  explicit Shape(std::span<const int64_t> dims);
  explicit Shape(const std::vector<int64_t>& dims);

  int rank() const { return rank_; }
  int64_t operator[](int axis) const { return dims_[axis]; }
  // Dimension counted from the front, or from the back when negative; ShapeError when out of range.
  int64_t dim(int axis) const;
  int64_t numel() const;
  std::span<const int64_t> dims() const { return {dims_.data(), static_cast<size_t>(rank_)}; }
  const int64_t* begin() const { return dims_.data(); }
  const int64_t* end() const { return dims_.data() + rank_; }
  void push_back(int64_t dim);
  // Same shape with dimension `axis` replaced, removed or inserted before.
  Shape with(int axis, int64_t dim) const;
  Shape without(int axis) const;
  Shape inserted(int axis, int64_t dim) const;

  // "(32, 784)"; "()" for a scalar.
  std::string str() const;
  bool operator==(const Shape& other) const;

 private:
  void check();

  std::array<int64_t, max_rank> dims_{};
  int rank_ = 0;
};

// -1 means the last axis; throws ShapeError "[op] axis 3 is out of range for (2, 3)".
int normalize_axis(int axis, int rank, const char* op);
// Sorted, distinct, non-negative; an empty list means all axes.
std::vector<int> normalize_axes(std::vector<int> axes, int rank, const char* op);

// NumPy broadcasting of two shapes; ShapeError names `op` and both shapes.
Shape broadcast_shapes(const Shape& a, const Shape& b, const char* op);

// Strides in elements of a dense row-major array.
std::array<int64_t, Shape::max_rank> row_major_strides(const Shape& shape);

}  // namespace heddle
