// Small parts of the functions that are composed of movement. Internal to core/functions, beside build.h. Thread
// safety: recording is per thread.
#pragma once

#include <fmt/format.h>

#include "heddle/core/functions/build.h"
#include "heddle/core/op/attrs.h"
#include "heddle/core/op/primitives.h"

namespace heddle::build {

// 0, 1, 2, ... along `axis` of `shape`.
inline Tensor positions(const Shape& shape, int axis, DeviceContext& device) {
  return Tensor(make_node_on(device, ops::iota_op, RangeAttrs(axis).packed(), shape, DType::i32));
}

// a b, and a + b; ShapeError where 64 bits do not hold it.
inline int64_t times(int64_t a, int64_t b) {
  int64_t result = 0;
  if (__builtin_mul_overflow(a, b, &result))
    throw ShapeError(fmt::format("[shape] {} x {} elements do not fit 64 bits", a, b));
  return result;
}
inline int64_t plus(int64_t a, int64_t b) {
  int64_t result = 0;
  if (__builtin_add_overflow(a, b, &result))
    throw ShapeError(fmt::format("[shape] {} + {} elements do not fit 64 bits", a, b));
  return result;
}

// Elements of axes first to last - 1.
inline int64_t product(const Shape& shape, int first, int last) {
  int64_t count = 1;
  for (int i = first; i < last; ++i) count = times(count, shape[i]);
  return count;
}

// A list of results has at most so many: each is an object of the host.
constexpr int64_t most_parts = int64_t{1} << 20;

inline bool broadcasts_to(const Shape& from, const Shape& to) {
  bool fits = from.rank() <= to.rank();
  for (int i = 1; fits && i <= from.rank(); ++i) fits = from.dim(-i) == to.dim(-i) || from.dim(-i) == 1;
  return fits;
}

inline void check_rank(const char* op, const Tensor& x, int least) {
  if (x.rank() < least)
    throw ShapeError(fmt::format("[{}] needs at least {} {}; got {}; reshape() it", op, least,
                                 least == 1 ? "axis" : "axes", x.shape().str()));
}

inline void check_dims(const char* op, int rank) {
  if (rank > Shape::max_rank)
    throw ShapeError(fmt::format("[{}] the result has {} axes; at most {} are supported", op, rank, Shape::max_rank));
}

inline int axis_of(const char* op, const Tensor& x, int axis) {
  check_rank(op, x, 1);
  return normalize_axis(axis, x.rank(), op);
}

// Two different axes, counted from the first.
inline std::pair<int, int> two_axes(const char* op, int rank, int axis0, int axis1) {
  const int a = normalize_axis(axis0, rank, op), b = normalize_axis(axis1, rank, op);
  if (a == b) throw ValueError(fmt::format("[{}] the two axes must differ; got {} and {}", op, axis0, axis1));
  return {a, b};
}

}  // namespace heddle::build
