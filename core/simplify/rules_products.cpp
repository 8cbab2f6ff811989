// Rules for products and sums.
#include <algorithm>

#include "heddle/core/op/attrs.h"
#include "heddle/core/op/primitives.h"
#include "heddle/core/simplify/simplifier.h"

namespace heddle {

bool swaps_last_two(const IrNode& node) {
  const std::vector<int64_t>& order = order_of(node.attrs);
  const int64_t rank = static_cast<int64_t>(order.size());
  for (int64_t d = 0; d < rank - 2; ++d) {
    if (order[static_cast<size_t>(d)] != d) return false;
  }
  return rank >= 2 && order[static_cast<size_t>(rank - 2)] == rank - 1;
}

// (a b)^T = b^T a^T: the transposes become strides of the operands, and what follows can join the product's epilogue.
// Under autocast a gradient of f32 is such a product of 16 bits behind a cast.
std::optional<int> transpose_product(Simplifier& graph, IrNode& node) {
  if (node.op != &ops::permute_op || graph.users_of(node.inputs[0]) != 1 || !swaps_last_two(node)) return std::nullopt;
  const bool is_cast = graph.at(node.inputs[0]).op == &ops::cast_op;
  const int id = is_cast ? graph.at(node.inputs[0]).inputs[0] : node.inputs[0];
  if (graph.at(id).op != &ops::matmul_op || graph.users_of(id) != 1) return std::nullopt;
  const IrNode product = graph.at(id);
  const auto transposed = [&](int id) {
    Shape shape = graph.at(id).shape;
    const int rank = shape.rank();
    const int64_t rows = shape[rank - 2], columns = shape[rank - 1];
    return graph.make(
        {&ops::permute_op, node.attrs, {id}, shape.with(rank - 2, columns).with(rank - 1, rows), graph.at(id).dtype});
  };
  const int a = transposed(product.inputs[1]), b = transposed(product.inputs[0]);
  const int turned = graph.make({&ops::matmul_op, {}, {a, b}, node.shape, product.dtype});
  return is_cast ? graph.make({&ops::cast_op, {}, {turned}, node.shape, node.dtype}) : turned;
}

namespace {

bool is_dequantised(const Simplifier& graph, int id) {
  if (graph.at(id).op != &ops::cast_op || graph.at(id).dtype != DType::f32) return false;
  const DType from = graph.at(graph.at(id).inputs[0]).dtype;
  return from == DType::i8 || from == DType::u8;
}

// Quantised operands: of (cast(q) s) b and a (cast(q) s), scales that are constant along the inner dimension are
// applied to the product. The product then reads the bytes as they lie, and the scales join its epilogue.
std::optional<int> scale_of_product(Simplifier& graph, const IrNode& node, size_t side) {
  if (node.op != &ops::matmul_op || node.dtype != DType::f32) return std::nullopt;
  const int rank = node.shape.rank();
  int axis = side == 0 ? rank - 1 : rank - 2;  // the inner dimension
  const IrNode operand = graph.at(node.inputs[side]);
  const bool turned = operand.op == &ops::permute_op;
  if (turned) axis = static_cast<int>(order_of(operand.attrs)[static_cast<size_t>(axis)]);
  const IrNode product = turned ? graph.at(operand.inputs[0]) : operand;
  if (product.op != &ops::mul_op) return std::nullopt;
  const int q = is_dequantised(graph, product.inputs[0]) ? 0 : 1;
  const int bytes = product.inputs[static_cast<size_t>(q)], scale = product.inputs[static_cast<size_t>(1 - q)];
  if (!is_dequantised(graph, bytes)) return std::nullopt;
  const auto turn = [&](int id) {
    if (!turned) return id;
    Shape shape;
    for (const int64_t from : order_of(operand.attrs)) shape.push_back(graph.at(id).shape[static_cast<int>(from)]);
    return graph.make({&ops::permute_op, operand.attrs, {id}, shape, graph.at(id).dtype});
  };
  int factor = -1;
  if (graph.is_full(scale)) {
    factor = graph.make_full(node.shape, node.dtype, graph.at(scale).attrs.real);
  } else if (graph.at(scale).op == &ops::expand_op && graph.at(graph.at(scale).inputs[0]).shape[axis] == 1) {
    factor = graph.make({&ops::expand_op, {}, {turn(graph.at(scale).inputs[0])}, node.shape, node.dtype});
  } else {
    return std::nullopt;
  }
  IrNode plain = node;
  plain.inputs[side] = turn(bytes);
  const int sums = graph.make(std::move(plain));
  return graph.make({&ops::mul_op, {}, {sums, factor}, node.shape, node.dtype});
}

std::optional<int> move_scales(Simplifier& graph, IrNode& node) {
  for (const size_t side : {size_t{0}, size_t{1}}) {
    if (std::optional<int> scaled = scale_of_product(graph, node, side)) return scaled;
  }
  return std::nullopt;
}

// The sum over all batches of a[i]^T b[i], a weight's gradient, is one product over what the batches hold together.
std::optional<int> sum_of_products(Simplifier& graph, IrNode& node) {
  if (node.op != &ops::sum_op || graph.at(node.inputs[0]).op != &ops::matmul_op) return std::nullopt;
  const IrNode product = graph.at(node.inputs[0]);
  const int rank = product.shape.rank();
  if (rank < 3 || axes_of(node.attrs).size() != static_cast<size_t>(rank - 2) ||
      axes_of(node.attrs).back() != rank - 3 || !is_float(node.dtype))
    return std::nullopt;
  const IrNode left = graph.at(product.inputs[0]), right = graph.at(product.inputs[1]);
  if (left.op != &ops::permute_op || !swaps_last_two(left) || right.op == &ops::permute_op ||
      right.op == &ops::expand_op)
    return std::nullopt;
  const int64_t rows = left.shape[rank - 2], columns = right.shape[rank - 1],
                inner = right.shape.numel() / std::max<int64_t>(1, columns);
  const int a = graph.make({&ops::reshape_op, {}, {left.inputs[0]}, Shape{inner, rows}, left.dtype});
  const int b = graph.make({&ops::reshape_op, {}, {product.inputs[1]}, Shape{inner, columns}, right.dtype});
  const int turned = graph.make({&ops::permute_op, Attrs{{1, 0}}, {a}, Shape{rows, inner}, left.dtype});
  return graph.make({&ops::matmul_op, {}, {turned, b}, node.shape, node.dtype});
}

// Over axes of size 1 there is nothing to reduce.
std::optional<int> trivial_reduction(Simplifier& graph, IrNode& node) {
  const IrNode& x = graph.at(node.inputs[0]);
  if (!std::all_of(axes_of(node.attrs).begin(), axes_of(node.attrs).end(),
                   [&](int64_t axis) { return x.shape[static_cast<int>(axis)] == 1; }))
    return std::nullopt;
  if (node.op == &ops::argmax_op || node.op == &ops::argmin_op) return graph.make_full(node.shape, node.dtype, 0);
  return graph.make({&ops::reshape_op, {}, {node.inputs[0]}, node.shape, node.dtype});
}

}  // namespace

std::span<const Rule> reduce_rules() {
  static constexpr Rule rules[] = {{Pass::products, sum_of_products}, {Pass::identities, trivial_reduction}};
  return rules;
}

std::span<const Rule> product_rules() {
  static constexpr Rule rules[] = {{Pass::scales, move_scales}};
  return rules;
}

}  // namespace heddle
