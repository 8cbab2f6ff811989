// References of the rows of kind body, in double precision and in the order of their definitions (primitives.h).
#include <fmt/format.h>

#include <stdexcept>
#include <unordered_map>

#include "core/graph/primitives.h"
#include "core/graph/reference_ops.h"

namespace heddle::reference {
namespace {

HostArray scatter_rows(const Node&, Inputs in) {
  const HostArray &base = *in[0], &indices = *in[1], &rows = *in[2];
  HostArray out = base;
  const int64_t height = base.shape[0];
  const Rows layout(rows.shape, 0);
  for (size_t n = 0; n < indices.ints.size(); ++n) {
    const int64_t row = indices.ints[n];
    if (row < 0 || row >= height) continue;
    for (int64_t i = 0; i < layout.inner; ++i) {
      const auto to = static_cast<size_t>(row * layout.inner + i);
      const size_t from = layout.at(0, static_cast<int64_t>(n), i);
      if (is_float(out.dtype)) {
        out.floats[to] += rows.floats[from];
      } else {
        out.ints[to] = wrapped(add_wrapping(out.ints[to], rows.ints[from]), out.dtype);
      }
    }
  }
  return out;
}

using Body = HostArray (*)(const Node& node, Inputs in);

const std::unordered_map<const OpDef*, Body>& bodies() {
  static const std::unordered_map<const OpDef*, Body> table = {
      {&ops::scatter_rows_op, scatter_rows}, {&ops::conv_op, conv},
      {&ops::conv_input_grad_op, conv},      {&ops::conv_weight_grad_op, conv},
      {&ops::attention_op, attention},
      {&ops::attention_query_gradient_op, attention_gradient},
      {&ops::attention_key_gradient_op, attention_gradient},
      {&ops::attention_bias_gradient_op, attention_gradient},
  };
  return table;
}

}  // namespace

HostArray body(const Node& node, Inputs in) {
  const auto found = bodies().find(node.op);
  if (found == bodies().end()) throw std::logic_error(fmt::format("[reference] {} has no line in reference_bodies.cpp", node.op->name));
  return found->second(node, in);
}

}  // namespace heddle::reference
