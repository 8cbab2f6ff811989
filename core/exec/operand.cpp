#include "core/exec/operand.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "core/exec/bodies.h"
#include "core/exec/emit.h"
#include "core/exec/emit_text.h"
#include "core/graph/primitives.h"

namespace heddle {

Operand resolve_operand(const ScheduledGraph& scheduled, const Group& group, int id, const std::string& variable) {
  const Graph& graph = scheduled.graph;
  std::vector<int> views, functions;
  for (;;) {
    const IrNode& node = graph.nodes[id];
    if (is_view_op(*node.op)) views.push_back(id);
    else if (std::binary_search(group.inlined.begin(), group.inlined.end(), id)) functions.push_back(id);
    else break;
    id = node.inputs[0];
  }
  const IrNode& base = graph.nodes[id];
  Operand operand;
  operand.dtype = base.dtype;
  operand.slot = {SlotRef::Kind::vertex, id};
  View view = View::dense(base.shape);
  if (base.leaf >= 0) {
    operand.slot = {SlotRef::Kind::input, graph.leaves[base.leaf].slot};
    view = graph.leaves[base.leaf].view;
  }
  for (const OutputPlan& output : scheduled.outputs) {
    if (output.base == id && output.assign_slot >= 0 && !output.copy_back) operand.slot = {SlotRef::Kind::input, output.assign_slot};
  }
  const std::optional<View> composed = compose(graph, views, view);
  if (!composed) throw std::logic_error("[lower] an operand is no view of memory");
  operand.view = *composed;
  operand.function = variable;
  for (auto f = functions.rbegin(); f != functions.rend(); ++f) {
    const IrNode& node = graph.nodes[*f];
    if (node.op == &ops::cast_op) {
      const DType from = arith(graph.nodes[node.inputs[0]].dtype), to = arith(node.dtype);
      if (from != to) operand.function = fmt::format("CAST({}, {})", dialect_type(to), operand.function);
      continue;  // loads already give the arithmetic type
    }
    operand.function = fmt::format("({})", substitute(node.op->dialect, {operand.function}, graph.nodes[node.inputs[0]].dtype));
  }
  return operand;
}

bool updates_operand(const ScheduledGraph& scheduled, const Group& group) {
  if (group.kind != GroupKind::body) return false;
  const IrNode& anchor = scheduled.graph.nodes[group.anchor];
  return body_row(*anchor.op).updates && resolve_operand(scheduled, group, anchor.inputs[0], "x").slot == resolve_operand(scheduled, group, group.anchor, "x").slot;
}

std::optional<MatmulBatch> try_matmul_batch(const View& a, const View& b) {
  struct Loop {
    int64_t size, a, b;
  };
  std::vector<Loop> loops;
  for (int d = 0; d < a.shape.rank() - 2; ++d) {
    if (a.shape[d] == 1) continue;
    const Loop next{a.shape[d], a.strides[d], b.strides[d]};
    if (!loops.empty() && loops.back().a == next.a * next.size && loops.back().b == next.b * next.size) {
      loops.back() = {loops.back().size * next.size, next.a, next.b};
    } else {
      loops.push_back(next);
    }
  }
  if (loops.size() > 2) return std::nullopt;
  MatmulBatch batch;
  // The inner loop is the second entry.
  for (size_t i = 0; i < loops.size(); ++i) {
    const size_t at = 2 - loops.size() + i;
    batch.sizes[at] = loops[i].size;
    batch.a_strides[at] = loops[i].a;
    batch.b_strides[at] = loops[i].b;
  }
  return batch;
}

MatmulBatch matmul_batch(const View& a, const View& b) {
  const std::optional<MatmulBatch> batch = try_matmul_batch(a, b);
  if (!batch) throw std::logic_error("[lower] a matmul has more than two batch loops");
  return *batch;
}

}  // namespace heddle
