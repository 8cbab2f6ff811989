// Builders of quantize.inc.
#include <fmt/format.h>

#include <algorithm>

#include "heddle/onnx/narrow_types.h"
#include "heddle/onnx/ops/build.h"

namespace heddle::onnx::build {
namespace {

// A scale or zero point for use with x: one number, one for each of an axis, or one for each block of it.
Tensor placed(const Call& c, const Tensor& v, const Tensor& x) {
  if (v.numel() == 1 && v.rank() <= 1) return heddle::reshape(v, Shape{});
  const int axis = c.axis(c.integer("axis", 1), x.rank());
  const int64_t block = c.integer("block_size", 0);
  if (block > 0) {
    const Tensor each = repeat_interleave(v, block, axis);
    return each.dim(axis) == x.dim(axis) ? each : narrow(each, axis, 0, x.dim(axis));
  }
  if (v.rank() != 1) return v;
  Shape shape;
  for (int i = 0; i < x.rank(); ++i) shape.push_back(i == axis ? v.numel() : 1);
  return heddle::reshape(v, shape);
}

Tensor saturated(const Tensor& x, Type type) {
  if (is_narrow_float(type)) return narrowed(x, type, true);
  return heddle::cast(clamp(x, static_cast<double>(lowest(type)), static_cast<double>(highest(type))), storage(type));
}

Tensor whole(const Call& c, size_t i) { return heddle::cast(c.tensor(i), DType::i32); }

Tensor less_zero(const Tensor& x, const Tensor& zero) {
  return zero.defined() ? x - heddle::cast(zero, DType::i32) : x;
}

// Zero points of matrices: one number, one a row (a) or one a column (b).
Tensor rows_zero(const Tensor& zero) { return zero.rank() == 1 && zero.numel() > 1 ? unsqueeze(zero, -1) : zero; }

// A product of integers below 2^8 is exact in f32 as long as its sums stay below 2^24: channels are taken in pieces.
Tensor exact_convolution(const Call& c, const Tensor& x, const Tensor& weight) {
  constexpr int64_t largest = (int64_t{1} << 24) / (256 * 256);
  int64_t area = 1;
  for (int i = 2; i < weight.rank(); ++i) area *= weight.dim(i);
  const int64_t channels = weight.dim(1), piece = std::max<int64_t>(1, largest / area);
  if (area > largest) c.unsupported(fmt::format("kernels of {} places; {} are exact", area, largest));
  const Tensor fx = heddle::cast(x, DType::f32), fw = heddle::cast(weight, DType::f32);
  if (channels <= piece) return heddle::cast(convolution(c, fx, fw, {}, 0), DType::i32);
  if (c.integer("group", 1) != 1) c.unsupported("groups of so many channels");
  Tensor total;
  for (int64_t from = 0; from < channels; from += piece) {
    const int64_t count = std::min(piece, channels - from);
    const Tensor part =
        heddle::cast(convolution(c, narrow(fx, 1, from, count), narrow(fw, 1, from, count), {}, 0), DType::i32);
    total = total.defined() ? total + part : part;
  }
  return total;
}

// Of outputs channels, for (N, O, ...) or for the weights (O, ...).
Tensor along(const Tensor& v, int axis, int rank) {
  if (v.numel() == 1) return heddle::reshape(v, Shape{});
  Shape shape;
  for (int i = 0; i < rank; ++i) shape.push_back(i == axis ? v.numel() : 1);
  return heddle::reshape(v, shape);
}

// round(whole numbers times a factor) + zero point, in the zero point's type.
Tensor requantised(const Tensor& sums, const Tensor& factor, const Tensor& zero, Type type) {
  const Tensor scaled = heddle::round(heddle::cast(sums, DType::f32) * factor);
  return saturated(scaled + heddle::cast(zero, DType::f32), type);
}

}  // namespace

void quantize(Call& c) {
  const Tensor x = c.tensor(0), scale = placed(c, c.tensor(1), x);
  Type type = c.given(2) ? c.type(2) : static_cast<Type>(c.integer("output_dtype", 0));
  if (type == Type::none) type = Type::u8;
  Tensor y = heddle::cast(x, DType::f32) / heddle::cast(scale, DType::f32);
  if (is_narrow_float(type)) return c.out(narrowed(y, type, c.integer("saturate", 1) != 0), type);
  y = heddle::round(y);
  if (c.given(2)) y = y + heddle::cast(placed(c, c.tensor(2), x), DType::f32);
  c.out(saturated(y, type), type);
}

void dequantize(Call& c) {
  const Tensor x = c.tensor(0), scale = placed(c, c.tensor(1), x);
  // A float's zero point is zero.
  Tensor whole = is_narrow_float(c.type(0)) ? x : heddle::cast(x, DType::i32);
  if (c.given(2)) whole = whole - heddle::cast(placed(c, c.tensor(2), x), whole.dtype());
  const Tensor y = heddle::cast(whole, DType::f32) * heddle::cast(scale, DType::f32);
  Type type = static_cast<Type>(c.integer("output_dtype", 0));
  if (type == Type::none) type = c.type(1);
  c.out(heddle::cast(y, storage(type)), type);
}

void dynamic_quantize(Call& c) {
  const Tensor x = c.tensor(0);
  const Tensor low = minimum(heddle::min(x), 0.0), high = maximum(heddle::max(x), 0.0);
  const Tensor scale = (high - low) / 255.0;
  const Tensor zero = clamp(heddle::round((0.0 - low) / scale), 0, 255);
  c.out(saturated(heddle::round(x / scale) + zero, Type::u8), Type::u8);
  c.out(scale);
  c.out(heddle::cast(zero, DType::u8), Type::u8);
}

void matmul_integer(Call& c) {
  const Tensor a = less_zero(whole(c, 0), c.given(2) ? rows_zero(c.tensor(2)) : Tensor());
  c.out(heddle::matmul(a, less_zero(whole(c, 1), c.tensor_or(3))));
}

void qlinear_matmul(Call& c) {
  const Tensor a = less_zero(whole(c, 0), rows_zero(c.tensor(2))), b = less_zero(whole(c, 3), c.tensor(5));
  const Tensor factor = rows_zero(c.tensor(1)) * c.tensor(4) / c.tensor(6);
  c.out(requantised(heddle::matmul(a, b), heddle::cast(factor, DType::f32), c.tensor(7), c.type(7)), c.type(7));
}

void conv_integer(Call& c) {
  const Tensor x = less_zero(whole(c, 0), c.tensor_or(2)), w = whole(c, 1);
  c.out(exact_convolution(c, x, c.given(3) ? less_zero(w, along(c.tensor(3), 0, w.rank())) : w));
}

void qlinear_conv(Call& c) {
  const Tensor x = less_zero(whole(c, 0), along(c.tensor(2), 0, 0)), weight = c.tensor(3);
  const Tensor w = less_zero(heddle::cast(weight, DType::i32), along(c.tensor(5), 0, weight.rank()));
  Tensor sums = exact_convolution(c, x, w);
  if (c.given(8)) sums = sums + along(c.tensor(8), 1, x.rank());
  const Tensor factor = along(c.tensor(1), 0, 0) * along(c.tensor(4), 1, x.rank()) / along(c.tensor(6), 0, 0);
  c.out(requantised(sums, factor, along(c.tensor(7), 0, 0), c.type(7)), c.type(7));
}

}  // namespace heddle::onnx::build
