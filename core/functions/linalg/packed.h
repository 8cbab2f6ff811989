// Weights whose elements stay packed in blocks (core/base/ggml_types.h), and products with them.
//
// A packed matrix of (N, K) elements is a tensor (N, bytes of a row) u8: whole blocks, one row after the other, as GGUF
// files hold them. Types of blocks: Q4_0, Q4_1, Q8_0, Q4_K, Q6_K, NF4; numbers that stand alone (F16, BF16, F32) are
// tensors of their dtype instead. Errors: ShapeError, DTypeError, ValueError. Thread safety: recording is per thread.
#pragma once

#include "heddle/core/base/ggml_types.h"
#include "heddle/core/graph/tensor.h"

namespace heddle {

// What elements of that shape take, the last axis in bytes. ShapeError unless it is whole blocks, ValueError for a type
// that has none.
Shape packed_shape(const Shape& elements, GgmlType type);

// The elements of blocks (..., bytes) u8, as dequantise() gives them: (..., elements) f32.
Tensor unpack_blocks(const Tensor& blocks, GgmlType type, Caller caller = Caller::current());

// x W^T for x (..., K) and packed W (N, bytes of K elements): (..., N) f32. A few rows of x are multiplied with what a
// kernel unpacks in registers, many with panels or shared tiles that it unpacks. So has the gradient by x.
Tensor matmul_packed(const Tensor& x, const Tensor& blocks, GgmlType type, Caller caller = Caller::current());

// x (..., K) as GGML rounds it to 8 bits before it multiplies it with such blocks: stretches of 32 elements (256 beside
// Q4_K and Q6_K) are whole numbers of -127 to 127 times a scale, their largest absolute value / 127; of 32 elements the
// scale is rounded to f16. In f32; no gradient flows through. ShapeError unless K is whole blocks.
Tensor rounded_to_8_bits(const Tensor& x, GgmlType type, Caller caller = Caller::current());

namespace packed {

// g W for g (..., N) and packed W (N, bytes of K elements): (..., K) f32, the gradient of matmul_packed() by x.
Tensor input_grad(const Tensor& g, const Tensor& blocks, GgmlType type);

}  // namespace packed

}  // namespace heddle
