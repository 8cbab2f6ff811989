#include "heddle/core/base/shape.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "heddle/core/base/error.h"

namespace heddle {

Shape::Shape(std::initializer_list<int64_t> dims) : Shape(std::span<const int64_t>(dims.begin(), dims.size())) {}

Shape::Shape(const std::vector<int64_t>& dims) : Shape(std::span<const int64_t>(dims)) {}

Shape::Shape(std::span<const int64_t> dims) {
  if (dims.size() > max_rank) {
    throw ShapeError(fmt::format("[shape] ({}) has {} dimensions; at most {} are supported", fmt::join(dims, ", "),
                                 dims.size(), max_rank));
  }
  rank_ = static_cast<int>(dims.size());
  std::copy(dims.begin(), dims.end(), dims_.begin());
  check();
}

void Shape::check() {
  int64_t count = 1;
  bool overflow = false;
  bool empty = false;
  for (int i = 0; i < rank_; ++i) {
    if (dims_[i] < 0) throw ShapeError(fmt::format("[shape] negative dimension {} in {}", dims_[i], str()));
    empty = empty || dims_[i] == 0;
    // Zeros do not count here: (2^62, 0, 8) has no elements, whatever the order of its dimensions.
    if (dims_[i] != 0) overflow = __builtin_mul_overflow(count, dims_[i], &count) || overflow;
  }
  if (overflow && !empty)
    throw ShapeError(fmt::format("[shape] the number of elements of {} does not fit 64 bits", str()));
}

int64_t Shape::dim(int axis) const { return dims_[static_cast<size_t>(normalize_axis(axis, rank_, "dim"))]; }

int64_t Shape::numel() const {
  // An empty shape may have other dimensions whose product overflows.
  for (int i = 0; i < rank_; ++i) {
    if (dims_[i] == 0) return 0;
  }
  int64_t count = 1;
  for (int i = 0; i < rank_; ++i) count *= dims_[i];
  return count;
}

void Shape::push_back(int64_t dim) {
  if (rank_ == max_rank) throw ShapeError(fmt::format("[shape] {} already has {} dimensions", str(), max_rank));
  dims_[rank_++] = dim;
  check();
}

Shape Shape::with(int axis, int64_t dim) const {
  Shape result = *this;
  result.dims_[static_cast<size_t>(normalize_axis(axis, rank_, "shape"))] = dim;
  result.check();
  return result;
}

Shape Shape::without(int axis) const {
  const int at = normalize_axis(axis, rank_, "shape");
  Shape result;
  for (int i = 0; i < rank_; ++i) {
    if (i != at) result.dims_[result.rank_++] = dims_[i];
  }
  result.check();
  return result;
}

Shape Shape::inserted(int axis, int64_t dim) const {
  const int at = normalize_axis(axis, rank_ + 1, "shape");
  if (rank_ == max_rank) throw ShapeError(fmt::format("[shape] {} already has {} dimensions", str(), max_rank));
  Shape result = *this;
  for (int i = rank_; i > at; --i) result.dims_[i] = dims_[i - 1];
  result.dims_[at] = dim;
  ++result.rank_;
  result.check();
  return result;
}

std::string Shape::str() const { return fmt::format("({})", fmt::join(dims(), ", ")); }

bool Shape::operator==(const Shape& other) const {
  return rank_ == other.rank_ && std::equal(begin(), end(), other.begin());
}

int normalize_axis(int axis, int rank, const char* op) {
  const int result = axis < 0 ? axis + rank : axis;
  if (result < 0 || result >= rank) {
    throw ShapeError(
        fmt::format("[{}] axis {} is out of range for {} dimension{}", op, axis, rank, rank == 1 ? "" : "s"));
  }
  return result;
}

std::vector<int> normalize_axes(std::vector<int> axes, int rank, const char* op) {
  if (axes.empty()) {
    for (int i = 0; i < rank; ++i) axes.push_back(i);
    return axes;
  }
  for (int& axis : axes) axis = normalize_axis(axis, rank, op);
  std::sort(axes.begin(), axes.end());
  const auto twice = std::adjacent_find(axes.begin(), axes.end());
  if (twice != axes.end()) throw ShapeError(fmt::format("[{}] axis {} is given twice", op, *twice));
  return axes;
}

Shape broadcast_shapes(const Shape& a, const Shape& b, const char* op) {
  if (a == b) return a;
  const int rank = std::max(a.rank(), b.rank());
  std::array<int64_t, Shape::max_rank> dims{};
  for (int i = 1; i <= rank; ++i) {
    const int64_t x = i <= a.rank() ? a[a.rank() - i] : 1;
    const int64_t y = i <= b.rank() ? b[b.rank() - i] : 1;
    if (x != y && x != 1 && y != 1) {
      throw ShapeError(
          fmt::format("[{}] shapes {} and {} do not broadcast: {} beside {} in dimension {} from the end "
                      "(they must be equal or one of them 1)",
                      op, a.str(), b.str(), x, y, i));
    }
    dims[static_cast<size_t>(rank - i)] = x == 1 ? y : x;
  }
  return Shape(std::span<const int64_t>(dims.data(), static_cast<size_t>(rank)));
}

std::array<int64_t, Shape::max_rank> row_major_strides(const Shape& shape) {
  std::array<int64_t, Shape::max_rank> strides{};
  int64_t stride = 1;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    strides[static_cast<size_t>(i)] = stride;
    stride *= std::max<int64_t>(shape[i], 1);
  }
  return strides;
}

}  // namespace heddle
