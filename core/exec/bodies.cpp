#include "core/exec/bodies.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "core/graph/primitives.h"

namespace heddle {
namespace {

BodyRow attention_row(const OpDef& op) {
  return {.op = &op, .lower = &op == &ops::attention_op ? lower_attention : lower_attention_gradient, .accepts = attention_accepts, .takes = attention_takes};
}

const BodyRow rows[] = {
    attention_row(ops::attention_op),
    attention_row(ops::attention_query_gradient_op),
    attention_row(ops::attention_key_gradient_op),
    attention_row(ops::attention_bias_gradient_op),
    attention_row(attention_gradients_op),
    {.op = &ops::scatter_rows_op, .lower = lower_scatter_rows, .dense_operands = true},
    {.op = &ops::argsort_op, .lower = lower_sort_blocks, .dense_operands = true},
    {.op = &sort_merge_op, .lower = lower_sort_merge, .dense_operands = true},
    {.op = &ops::cumsum_op, .lower = lower_scan, .dense_operands = true},
    {.op = &ops::cumprod_op, .lower = lower_scan, .dense_operands = true},
    {.op = &segment_add_op, .lower = lower_segment_add, .dense_operands = true},
    {.op = &ops::conv_op, .lower = lower_conv, .epilogue = true},
    {.op = &ops::conv_input_grad_op, .lower = lower_conv, .epilogue = true},
    {.op = &ops::conv_weight_grad_op, .lower = lower_conv, .epilogue = true},
};

}  // namespace

const BodyRow& body_row(const OpDef& op) {
  const auto* row = std::find_if(std::begin(rows), std::end(rows), [&](const BodyRow& r) { return r.op == &op; });
  if (row == std::end(rows)) throw std::logic_error(fmt::format("[lower] {} has no line in core/exec/bodies.cpp", op.name));
  return *row;
}

}  // namespace heddle
