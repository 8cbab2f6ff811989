#include "heddle/core/functions/linalg/packed.h"

#include <fmt/format.h>

#include "heddle/core/functions/build.h"
#include "heddle/core/functions/linalg/matmul.h"
#include "heddle/core/functions/math/cast.h"
#include "heddle/core/functions/math/elementwise.h"
#include "heddle/core/functions/math/reduce.h"
#include "heddle/core/functions/shape/create.h"
#include "heddle/core/functions/shape/movement.h"
#include "heddle/core/op/decompose.h"
#include "heddle/core/op/packed_rows.h"

namespace heddle {
namespace {

const GgmlBlock& packed_block(GgmlType type, const char* op) {
  const GgmlBlock& block = block_of(type);
  if (block.elements == 1)
    throw ValueError(
        fmt::format("[{}] {} has no blocks; numbers that stand alone are a tensor of their dtype", op, block.name));
  return block;
}

// Elements of the last axis of blocks.
int64_t elements_of(const Tensor& blocks, GgmlType type, const char* op) {
  const GgmlBlock& block = packed_block(type, op);
  if (blocks.dtype() != DType::u8) throw DTypeError(fmt::format("[{}] blocks are u8, got {}", op, build::show(blocks)));
  if (blocks.rank() == 0 || blocks.dim(-1) % block.bytes != 0)
    throw ShapeError(fmt::format("[{}] blocks are {}; the last axis is whole blocks of {} bytes in {}", op,
                                 blocks.shape().str(), block.bytes, block.name));
  return blocks.dim(-1) / block.bytes * block.elements;
}

Shape with_last(const Shape& shape, int64_t size) { return shape.with(shape.rank() - 1, size); }

}  // namespace

Shape packed_shape(const Shape& elements, GgmlType type) {
  const GgmlBlock& block = packed_block(type, "packed_shape");
  const int64_t last = elements.rank() == 0 ? 1 : elements[elements.rank() - 1];
  if (last % block.elements != 0)
    throw ShapeError(fmt::format("[packed_shape] {} elements of the last axis are no whole blocks of {} in {}", last,
                                 block.elements, block.name));
  return with_last(elements, last / block.elements * block.bytes);
}

Tensor unpack_blocks(const Tensor& blocks, GgmlType type, Caller caller) {
  const CallerScope scope(caller);
  const Shape shape = with_last(blocks.shape(), elements_of(blocks, type, "unpack_blocks"));
  if (shape.numel() == 0) return zeros(shape, DType::f32, &blocks.device());
  return build::record(ops::unpack_blocks_op, {&blocks}, block_attrs(type), shape, DType::f32);
}

Tensor matmul_packed(const Tensor& x, const Tensor& blocks, GgmlType type, Caller caller) {
  const CallerScope scope(caller);
  build::check_device(x, blocks, "matmul_packed");
  const int64_t inner = elements_of(blocks, type, "matmul_packed");
  if (blocks.rank() != 2 || x.rank() == 0 || x.dim(-1) != inner)
    throw ShapeError(
        fmt::format("[matmul_packed] x is {}, blocks are {}; expected (..., K) and (N, bytes of K), {} "
                    "elements here",
                    x.shape().str(), blocks.shape().str(), inner));
  if (x.rank() == 1) return squeeze(matmul_packed(unsqueeze(x, 0), blocks, type), 0);
  const Tensor wide = cast(x, DType::f32);
  const Shape shape = with_last(x.shape(), blocks.dim(0));
  if (shape.numel() == 0 || inner == 0) return zeros(shape, DType::f32, &x.device());
  return build::record(ops::matmul_packed_op, {&wide, &blocks}, block_attrs(type), shape, DType::f32);
}

Tensor packed::input_grad(const Tensor& g, const Tensor& blocks, GgmlType type) {
  build::check_device(g, blocks, "matmul_packed_input_grad");
  const int64_t columns = elements_of(blocks, type, "matmul_packed_input_grad");
  if (blocks.rank() != 2 || g.rank() == 0 || g.dim(-1) != blocks.dim(0))
    throw ShapeError(
        fmt::format("[matmul_packed_input_grad] g is {}, blocks are {}; expected (..., N) and (N, bytes of K)",
                    g.shape().str(), blocks.shape().str()));
  if (g.rank() == 1) return squeeze(input_grad(unsqueeze(g, 0), blocks, type), 0);
  const Tensor wide = cast(g, DType::f32);
  const Shape shape = with_last(g.shape(), columns);
  if (shape.numel() == 0 || blocks.dim(0) == 0) return zeros(shape, DType::f32, &g.device());
  return build::record(ops::matmul_packed_input_grad_op, {&wide, &blocks}, block_attrs(type), shape, DType::f32);
}

Tensor rounded_to_8_bits(const Tensor& x, GgmlType type, Caller caller) {
  const CallerScope scope(caller);
  const int64_t stretch = packed_block(type, "rounded_to_8_bits").elements;
  if (x.rank() == 0 || x.dim(-1) % stretch != 0)
    throw ShapeError(fmt::format("[rounded_to_8_bits] x is {}; expected whole stretches of {} elements beside {}",
                                 build::show(x), stretch, block_of(type).name));
  if (x.numel() == 0) return cast(x.detach(), DType::f32);
  const int64_t count = x.dim(-1) / stretch;
  const Tensor parts = reshape(cast(x.detach(), DType::f32), {x.numel() / x.dim(-1), count, stretch});
  const Tensor most = max(abs(parts), {-1}, true);
  const Tensor whole = round(parts * where(most > 0.0, 127.0 / most, 0.0));
  const Tensor scale = most / 127.0;
  return reshape(whole * (stretch == 32 ? cast(cast(scale, DType::f16), DType::f32) : scale), x.shape());
}

Tensor decompose_matmul_packed(const Node& node) {
  const Tensor x(node.inputs[0]), blocks(node.inputs[1]);
  return matmul(x, transpose(unpack_blocks(blocks, block_type_of(node.attrs))));
}

Tensor decompose_matmul_packed_input_grad(const Node& node) {
  const Tensor g(node.inputs[0]), blocks(node.inputs[1]);
  return matmul(g, unpack_blocks(blocks, block_type_of(node.attrs)));
}

}  // namespace heddle
