// Folds of elementwise.inc.
#include <algorithm>
#include <cmath>

#include "heddle/onnx/narrow_types.h"
#include "heddle/onnx/ops/fold.h"

namespace heddle::onnx::fold {
namespace {

// Two's complement, without overflow.
int64_t plus(int64_t a, int64_t b) { return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b)); }
int64_t minus(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
}
int64_t times(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}
int64_t quotient(int64_t a, int64_t b) { return b == 0 ? 0 : b == -1 ? minus(0, a) : a / b; }
int64_t remainder(int64_t a, int64_t b) { return b == 0 || b == -1 ? 0 : a % b; }
int64_t floor_remainder(int64_t a, int64_t b) {
  const int64_t r = remainder(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
double floor_remainder(double a, double b) {
  const double r = std::fmod(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

// 64 unsigned bits are compared and divided elsewhere: on the device.
bool plain(const HostCall& c) {
  for (size_t i = 0; i < c.count(); ++i) {
    if (c.given(i) && c.input(i).type == Type::u64) return false;
  }
  return true;
}

template <class Real>
Hosts unary(const HostCall& c, const Real& real) {
  const HostTensor& x = c.input(0);
  std::vector<double> values = x.reals();
  for (double& value : values) value = real(value);
  return {HostTensor::of_reals(x.type, x.shape, values)};
}

template <class Whole, class Real>
Hosts chain(const HostCall& c, const Whole& whole, const Real& real) {
  if (!plain(c)) return {};
  HostTensor result = c.input(0);
  for (size_t i = 1; i < c.count(); ++i) result = map(result, c.input(i), result.type, whole, real);
  return {result};
}

}  // namespace

std::vector<size_t> places(const Shape& from, const Shape& to) {
  std::vector<size_t> result(static_cast<size_t>(to.numel()));
  const auto strides = row_major_strides(from);
  std::array<int64_t, Shape::max_rank> at{};
  const int shift = to.rank() - from.rank();
  for (size_t& place : result) {
    int64_t offset = 0;
    for (int axis = shift; axis < to.rank(); ++axis) {
      if (from[axis - shift] != 1) offset += at[static_cast<size_t>(axis)] * strides[static_cast<size_t>(axis - shift)];
    }
    place = static_cast<size_t>(offset);
    for (int axis = to.rank() - 1; axis >= 0 && ++at[static_cast<size_t>(axis)] == to[axis]; --axis)
      at[static_cast<size_t>(axis)] = 0;
  }
  return result;
}

HostTensor picked(const HostTensor& x, const std::vector<size_t>& from, const Shape& shape) {
  const size_t width = size_of(x.type);
  std::string bytes(from.size() * width, '\0');
  for (size_t i = 0; i < from.size(); ++i)
    std::copy_n(x.bytes->data() + from[i] * width, width, bytes.data() + i * width);
  return {x.type, shape, std::make_shared<const std::string>(std::move(bytes))};
}

int axis_of(const HostCall& c, int64_t axis, int rank) {
  if (axis < -rank || axis >= rank) c.fail("an axis is out of range");
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

std::optional<std::vector<int64_t>> list(const HostCall& c, const char* attribute, size_t i) {
  if (c.has(attribute)) return c.integers(attribute);
  if (c.given(i)) return c.ints(i);
  return std::nullopt;
}

#define HEDDLE_FOLD(name, whole, real)                                                       \
  Hosts name(const HostCall& c) {                                                            \
    return {map(                                                                             \
        c.input(0), c.input(1), c.input(0).type, [](int64_t a, int64_t b) { return whole; }, \
        [](double a, double b) { return real; })};                                           \
  }
HEDDLE_FOLD(add, plus(a, b), a + b)
HEDDLE_FOLD(sub, minus(a, b), a - b)
HEDDLE_FOLD(mul, times(a, b), a* b)
#undef HEDDLE_FOLD

#define HEDDLE_FOLD(name, condition)                                                           \
  Hosts name(const HostCall& c) {                                                              \
    if (!plain(c)) return {};                                                                  \
    return {map(                                                                               \
        c.input(0), c.input(1), Type::boolean, [](int64_t a, int64_t b) { return condition; }, \
        [](double a, double b) { return static_cast<int>(condition); })};                      \
  }
HEDDLE_FOLD(equal, a == b)
HEDDLE_FOLD(greater, a > b)
HEDDLE_FOLD(greater_equal, a >= b)
HEDDLE_FOLD(less, a < b)
HEDDLE_FOLD(less_equal, a <= b)
HEDDLE_FOLD(logical_and, a != 0 && b != 0)
HEDDLE_FOLD(logical_or, a != 0 || b != 0)
HEDDLE_FOLD(logical_xor, (a != 0) != (b != 0))
#undef HEDDLE_FOLD

Hosts div(const HostCall& c) {
  if (!plain(c)) return {};
  return {map(c.input(0), c.input(1), c.input(0).type, quotient, [](double a, double b) { return a / b; })};
}

Hosts mod(const HostCall& c) {
  if (!plain(c)) return {};
  const bool as_c = c.integer("fmod", 0) != 0;
  return {map(
      c.input(0), c.input(1), c.input(0).type,
      [&](int64_t a, int64_t b) { return as_c ? remainder(a, b) : floor_remainder(a, b); },
      [&](double a, double b) { return as_c ? std::fmod(a, b) : floor_remainder(a, b); })};
}

Hosts max(const HostCall& c) {
  return chain(
      c, [](int64_t a, int64_t b) { return std::max(a, b); },
      [](double a, double b) { return a > b || std::isnan(a) ? a : b; });
}

Hosts min(const HostCall& c) {
  return chain(
      c, [](int64_t a, int64_t b) { return std::min(a, b); },
      [](double a, double b) { return a < b || std::isnan(a) ? a : b; });
}

Hosts neg(const HostCall& c) {
  const HostTensor& x = c.input(0);
  if (is_float(x.type)) return unary(c, [](double v) { return -v; });
  std::vector<int64_t> values = x.ints();
  for (int64_t& value : values) value = minus(0, value);
  return {HostTensor::of_ints(x.type, x.shape, values)};
}

Hosts ceil(const HostCall& c) {
  return unary(c, [](double v) { return std::ceil(v); });
}
Hosts floor(const HostCall& c) {
  return unary(c, [](double v) { return std::floor(v); });
}
Hosts sqrt(const HostCall& c) {
  return unary(c, [](double v) { return std::sqrt(v); });
}
Hosts identity(const HostCall& c) { return {c.input(0)}; }

Hosts logical_not(const HostCall& c) {
  std::vector<int64_t> values = c.ints(0);
  for (int64_t& value : values) value = value == 0;
  return {HostTensor::of_ints(Type::boolean, c.input(0).shape, values)};
}

Hosts cast(const HostCall& c) {
  const HostTensor& x = c.input(0);
  const Type to = static_cast<Type>(c.integer("to"));
  if (!is_held(x.type) || !is_held(to) || is_narrow_float(to)) return {};  // the device rounds those
  if (is_float(x.type) || x.type == Type::u64) return {HostTensor::of_reals(to, x.shape, x.reals())};
  return {HostTensor::of_ints(to, x.shape, x.ints())};
}

Hosts where(const HostCall& c) {
  const HostTensor &a = c.input(1), &b = c.input(2);
  const Shape shape = broadcast_shapes(broadcast_shapes(c.input(0).shape, a.shape, "onnx"), b.shape, "onnx");
  const std::vector<int64_t> condition = c.ints(0);
  const std::vector<size_t> at = places(c.input(0).shape, shape);
  const HostTensor x = picked(a, places(a.shape, shape), shape), y = picked(b, places(b.shape, shape), shape);
  std::string bytes = *y.bytes;
  const size_t width = size_of(a.type);
  for (size_t i = 0; i < at.size(); ++i) {
    if (condition[at[i]] != 0) std::copy_n(x.bytes->data() + i * width, width, bytes.data() + i * width);
  }
  return {HostTensor{a.type, shape, std::make_shared<const std::string>(std::move(bytes))}};
}

}  // namespace heddle::onnx::fold
