#include "heddle/core/lower/operand.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "heddle/core/ir/bodies.h"
#include "heddle/core/lower/emit.h"
#include "heddle/core/lower/emit_text.h"
#include "heddle/core/op/primitives.h"

namespace heddle {

Operand resolve_operand(const ScheduledGraph& scheduled, const Group& group, int id, const std::string& variable) {
  const Graph& graph = scheduled.graph;
  std::vector<int> views, functions;
  for (;;) {
    const IrNode& node = graph.nodes[id];
    if (is_view_op(*node.op))
      views.push_back(id);
    else if (std::binary_search(group.inlined.begin(), group.inlined.end(), id))
      functions.push_back(id);
    else
      break;
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
  if (const int slot = scheduled.assigned_slot(id); slot >= 0) operand.slot = {SlotRef::Kind::input, slot};
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
    operand.function =
        fmt::format("({})", substitute(node.op->dialect, {operand.function}, graph.nodes[node.inputs[0]].dtype));
  }
  return operand;
}

void enter_operand(const Section& section, Operand& operand, const std::vector<int>& variables) {
  operand.view = within(section, operand.view, variables);
  note_view(section, operand.slot, operand.dtype, operand.view, variables);
  operand.view.offset -= section.skipped(operand.slot, static_cast<int64_t>(size_of(operand.dtype)));
}

bool updates_operand(const ScheduledGraph& scheduled, const Group& group) {
  if (group.kind != GroupKind::body) return false;
  const IrNode& anchor = scheduled.graph.nodes[group.anchor];
  return body_row(*anchor.op).updates && resolve_operand(scheduled, group, anchor.inputs[0], "x").slot ==
                                             resolve_operand(scheduled, group, group.anchor, "x").slot;
}

}  // namespace heddle
