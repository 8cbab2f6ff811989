#include "heddle/core/lower/body_lowering.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "heddle/core/functions/linalg/linalg_rows.h"
#include "heddle/core/functions/nn/attention_kernel.h"
#include "heddle/core/ir/bodies.h"
#include "heddle/core/op/packed_rows.h"
#include "heddle/core/op/primitives.h"
#include "heddle/core/op/user_row.h"

namespace heddle {
namespace {

struct Row {
  const OpDef* op = nullptr;
  LoweredKernel (*lower)(const LowerInput& in) = nullptr;
};

constexpr Row rows[] = {
    {&ops::attention_op, lower_attention},
    {&ops::attention_query_gradient_op, lower_attention_gradient},
    {&ops::attention_key_gradient_op, lower_attention_gradient},
    {&ops::attention_bias_gradient_op, lower_attention_gradient},
    {&attention_gradients_op, lower_attention_gradient},
    {&ops::unpack_blocks_op, lower_unpack_blocks},
    {&ops::matmul_packed_op, lower_matmul_packed},
    {&ops::matmul_packed_input_grad_op, lower_matmul_packed},
    {&ops::scatter_rows_op, lower_scatter_rows},
    {&ops::copy_rows_op, lower_copy_rows},
    {&ops::argsort_op, lower_sort_blocks},
    {&sort_merge_op, lower_sort_merge},
    {&ops::cumsum_op, lower_scan},
    {&ops::cumprod_op, lower_scan},
    {&ops::cummax_op, lower_scan},
    {&ops::logcumsumexp_op, lower_scan},
    {&segment_add_op, lower_segment_add},
    {&linalg::cholesky_block_op, lower_cholesky_block},
    {&linalg::lu_panel_op, lower_lu_panel},
    {&linalg::triangular_block_op, lower_triangular_block},
    {&linalg::join_blocks_op, lower_join_blocks},
    {&linalg::qr_panel_op, lower_qr_panel},
    {&linalg::tridiagonal_op, lower_condensing},
    {&linalg::bidiagonal_op, lower_condensing},
    {&linalg::tridiagonal_sweeps_op, lower_sweeps},
    {&linalg::bidiagonal_sweeps_op, lower_sweeps},
    {&linalg::rotate_rows_op, lower_rotate_rows},
    {&linalg::rotate_op, lower_rotate},
    {&ops::conv_op, lower_conv},
    {&ops::conv_input_grad_op, lower_conv},
    {&ops::conv_weight_grad_op, lower_conv},
};

}  // namespace

LoweredKernel lower_body(const LowerInput& in) {
  const OpDef& op = *in.scheduled.graph.nodes[static_cast<size_t>(in.group.anchor)].op;
  if (as_user(op) != nullptr) return lower_user_body(in);
  const auto* row = std::find_if(std::begin(rows), std::end(rows), [&](const Row& r) { return r.op == &op; });
  if (row == std::end(rows))
    throw std::logic_error(fmt::format("[lower] {} has no line in core/lower/body_lowering.cpp", op.name));
  return row->lower(in);
}

}  // namespace heddle
