// Building blocks of the functions that record nodes: promotion, broadcasting, numbers beside tensors. Internal to
// core/functions.
//
// Invariants: what these return has exactly the shape and dtype asked for; where nothing has to change they return
// their argument, so that no node is recorded. Thread safety: recording is per thread.
#pragma once

#include <initializer_list>
#include <string>

#include "heddle/core/device/context.h"
#include "heddle/core/graph/autocast.h"
#include "heddle/core/graph/node.h"
#include "heddle/core/graph/tensor.h"
#include "heddle/core/op/op.h"

namespace heddle::build {

// The device to create on: the given one, or the default.
DeviceContext& device_of(DeviceContext* device);

// x repeated to `shape`, which its own shape broadcasts to.
Tensor broadcast(const Tensor& x, const Shape& shape);

// The dtype of a number beside a tensor of dtype t: t, but f32 for a fractional number beside integers, and the next
// wider integer where the number does not fit.
DType number_dtype(double value, DType t);
// One value everywhere, rounded to the dtype.
Tensor constant(const Shape& shape, double value, DType dtype, DeviceContext& device);
// The same of x's shape and device.
Tensor constant_like(const Tensor& x, double value, DType dtype);

// One node over `inputs`.
Tensor record(const OpDef& op, std::initializer_list<const Tensor*> inputs, Attrs attrs, const Shape& shape,
              DType dtype);

// "(32, 784) f32": how errors show a tensor.
std::string show(const Tensor& x);

// x itself, or cast to f32 when x is no float. Half-precision stays.
Tensor as_float(const Tensor& x);
// f16 and bf16 widened to f32 for a computation of several roundings; others as they are.
Tensor widen(const Tensor& x);

// ---- by the policy of an AutocastScope

// t, or f32 for what is no float; then by the policy.
DType float_dtype(DType t, Autocast policy);
// x in that dtype.
Tensor as_float(const Tensor& x, Autocast policy);

// ---- checks

// ShapeError unless both have the same shape: losses must not broadcast by accident.
void check_same_shape(const Tensor& x, const Tensor& y, const char* op, const char* x_name, const char* y_name);
// DTypeError unless i32 or i64.
void check_index_dtype(const Tensor& indices, const char* op);
// ValueError unless both live on one device.
void check_device(const Tensor& x, const Tensor& y, const char* op);

}  // namespace heddle::build
