// Arithmetic on the host for fold functions. Internal to onnx/ops. Thread safety: pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "heddle/onnx/op.h"

namespace heddle::onnx::fold {

using Hosts = std::vector<HostTensor>;

// For each element of `to` the place of that which `from` broadcasts to it.
std::vector<size_t> places(const Shape& from, const Shape& to);

// whole(a, b) of integers and bool, real(a, b) of floats, in `type`; shapes broadcast.
template <class Whole, class Real>
HostTensor map(const HostTensor& a, const HostTensor& b, Type type, const Whole& whole, const Real& real) {
  const Shape shape = broadcast_shapes(a.shape, b.shape, "onnx");
  const std::vector<size_t> ia = places(a.shape, shape), ib = places(b.shape, shape);
  if (is_float(a.type)) {
    const std::vector<double> x = a.reals(), y = b.reals();
    std::vector<double> result(ia.size());
    for (size_t i = 0; i < ia.size(); ++i) result[i] = static_cast<double>(real(x[ia[i]], y[ib[i]]));
    return HostTensor::of_reals(type, shape, result);
  }
  const std::vector<int64_t> x = a.ints(), y = b.ints();
  std::vector<int64_t> result(ia.size());
  for (size_t i = 0; i < ia.size(); ++i) result[i] = static_cast<int64_t>(whole(x[ia[i]], y[ib[i]]));
  return HostTensor::of_ints(type, shape, result);
}

// The elements of x at these places, in a shape.
HostTensor picked(const HostTensor& x, const std::vector<size_t>& from, const Shape& shape);
// What numpy makes of axes that count from the end; fails the call where one is out of range.
int axis_of(const HostCall& c, int64_t axis, int rank);
// An attribute in older opsets, an input in newer ones.
std::optional<std::vector<int64_t>> list(const HostCall& c, const char* attribute, size_t i);

}  // namespace heddle::onnx::fold
