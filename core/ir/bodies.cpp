#include "heddle/core/ir/bodies.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <stdexcept>

#include "heddle/core/device/context.h"
#include "heddle/core/functions/linalg/linalg_rows.h"
#include "heddle/core/functions/nn/attention_kernel.h"
#include "heddle/core/ir/attention_vertex.h"
#include "heddle/core/ir/conv_problem.h"
#include "heddle/core/ir/copy_rows_vertex.h"
#include "heddle/core/op/packed_rows.h"
#include "heddle/core/op/primitives.h"
#include "heddle/core/op/user_row.h"
#include "heddle/core/tiles/packed_tiles.h"

namespace heddle {

const OpDef sort_merge_op{.name = "sort_merge",
                          .kind = OpKind::body,
                          .arity = 2,
                          .rule = DTypeRule::any,
                          .doc = "runs of a sort, merged in pairs",
                          .attrs = AttrsForm::merge};
const OpDef segment_add_op{.name = "segment_add",
                           .kind = OpKind::body,
                           .arity = -1,
                           .rule = DTypeRule::any,
                           .doc = "rows summed by a sorted index"};

namespace {

// The products that a row of attention computes, each 2 flops for every pair of a query and a key and element of a
// head; half of them with a causal mask.
double attention_flops(const Graph& graph, const IrNode& node) {
  const AttentionProblem p = attention_problem(graph, node);
  const double pairs = static_cast<double>(p.batch * p.heads) * static_cast<double>(p.queries) *
                       static_cast<double>(p.keys) * (p.causal ? 0.5 : 1.0);
  const auto products = [&](int of_size, int of_value_size) {
    return 2 * pairs * static_cast<double>(of_size * p.size + of_value_size * p.value_size);
  };
  if (node.op == &ops::attention_query_gradient_op) return products(2, 1);
  if (node.op == &ops::attention_key_gradient_op) return products(2, 2);
  if (node.op == &attention_gradients_op) return products(3, 2);
  return products(1, 1);
}

// The direct sum's, whatever algorithm computes it.
double conv_flops(const Graph& graph, const IrNode& node) {
  const ConvProblem p = conv_problem(graph, node);
  double flops = 2.0 * static_cast<double>(p.N * p.G * p.CG * p.OG);
  const Extent3& positions = p.kind == ConvProblem::Kind::input_grad ? p.in : p.out;
  for (size_t d = 0; d < 3; ++d) flops *= static_cast<double>(positions[d] * p.kernel[d]);
  return flops;
}

// Of the leading order: a third of n^3 multiplications for a Cholesky factor, twice that for LU, n^2 / 2 for each
// column of a triangular system.
double matrix_flops(const Graph& graph, const IrNode& node) {
  const Shape& a = graph.nodes[node.inputs[0]].shape;
  const auto batch = static_cast<double>(a[0]), m = static_cast<double>(a[1]), n = static_cast<double>(a[2]),
             least = std::min(m, n);
  if (node.op == &linalg::cholesky_block_op) return batch * n * n * n / 3;
  if (node.op == &linalg::lu_panel_op)
    return batch * 2 * (m * n * least - (m + n) * least * least / 2 + least * least * least / 3);
  return batch * n * n * static_cast<double>(node.shape[2]);
}

// Whether unpacking in registers pays: of many rows, GPUs multiply the unpacked weight.
bool packed_takes(const Node& node) {
  const Shape& x = node.inputs[0]->shape;
  return matmul_packed_pays(node.device->caps(), x.numel() / x[x.rank() - 1], x[x.rank() - 1]);
}

// Blocks lie row by row, as they do in a mapped file: from any byte that their scales, read as f16, may begin at and
// that the kernel's constant holds. A copy of them would be made in every run.
bool packed_accepts(const IrNode& node, size_t input, const View& view) {
  const bool blocks = input + 1 == node.inputs.size();
  View from_start = view;
  from_start.offset = 0;
  return from_start.is_dense() && view.offset >= 0 && view.offset <= std::numeric_limits<uint32_t>::max() &&
         (!blocks || view.offset % 2 == 0);
}

// Of many rows as well: its kernel unpacks a panel once for all of them.
bool packed_grad_takes(const Node& node) {
  const Shape& g = node.inputs[0]->shape;
  return matmul_packed_grad_takes(node.device->caps(), g[g.rank() - 1]);
}

double packed_flops(const Graph& graph, const IrNode& node) {
  const Shape& x = graph.nodes[node.inputs[0]].shape;
  return 2.0 * static_cast<double>(node.shape.numel()) * static_cast<double>(x[x.rank() - 1]);
}

BodyRow attention_row(const OpDef& op) {
  return {.op = &op, .accepts = attention_accepts, .takes = attention_takes, .flops = attention_flops};
}

const BodyRow rows[] = {
    attention_row(ops::attention_op),
    attention_row(ops::attention_query_gradient_op),
    attention_row(ops::attention_key_gradient_op),
    attention_row(ops::attention_bias_gradient_op),
    attention_row(attention_gradients_op),
    {.op = &ops::unpack_blocks_op, .accepts = packed_accepts},
    {.op = &ops::matmul_packed_op,
     .accepts = packed_accepts,
     .takes = packed_takes,
     .flops = packed_flops,
     .epilogue = true},
    {.op = &ops::matmul_packed_input_grad_op,
     .accepts = packed_accepts,
     .takes = packed_grad_takes,
     .flops = packed_flops,
     .epilogue = true},
    {.op = &ops::scatter_rows_op, .dense_operands = true},
    {.op = &ops::copy_rows_op, .accepts = copy_rows_accepts, .takes = copy_rows_takes, .updates = true},
    {.op = &ops::argsort_op, .dense_operands = true},
    {.op = &sort_merge_op, .dense_operands = true},
    {.op = &ops::cumsum_op, .dense_operands = true},
    {.op = &ops::cumprod_op, .dense_operands = true},
    {.op = &ops::cummax_op, .dense_operands = true},
    {.op = &ops::logcumsumexp_op, .dense_operands = true},
    {.op = &segment_add_op, .dense_operands = true},
    {.op = &linalg::cholesky_block_op, .flops = matrix_flops},
    {.op = &linalg::lu_panel_op, .flops = matrix_flops},
    {.op = &linalg::triangular_block_op, .flops = matrix_flops},
    {.op = &linalg::join_blocks_op},
    {.op = &linalg::qr_panel_op},
    {.op = &linalg::tridiagonal_op, .dense_operands = true},
    {.op = &linalg::bidiagonal_op, .dense_operands = true},
    {.op = &linalg::tridiagonal_sweeps_op, .dense_operands = true},
    {.op = &linalg::bidiagonal_sweeps_op, .dense_operands = true},
    {.op = &linalg::rotate_rows_op, .dense_operands = true},
    {.op = &linalg::rotate_op, .dense_operands = true},
    {.op = &ops::conv_op, .flops = conv_flops, .epilogue = true},
    {.op = &ops::conv_input_grad_op, .flops = conv_flops, .epilogue = true},
    {.op = &ops::conv_weight_grad_op, .flops = conv_flops, .epilogue = true},
};

}  // namespace

const BodyRow& body_row(const OpDef& op) {
  static const BodyRow user{.op = nullptr,
                            .dense_operands = true,
                            .accepts = [](const IrNode&, size_t, const View& view) { return view.offset == 0; }};
  if (as_user(op) != nullptr) return user;
  const auto* row = std::find_if(std::begin(rows), std::end(rows), [&](const BodyRow& r) { return r.op == &op; });
  if (row == std::end(rows))
    throw std::logic_error(fmt::format("[plan] {} has no line in core/ir/bodies.cpp", op.name));
  return *row;
}

}  // namespace heddle
