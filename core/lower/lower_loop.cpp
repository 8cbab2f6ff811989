// Loops: no text of their own; the operands and results that the body's kernels are bound to.
#include "heddle/core/lower/lower_loop.h"

#include <fmt/format.h>

#include "heddle/core/lower/operand.h"

namespace heddle {

LoweredKernel lower_loop(const LowerInput& in) {
  const Graph& graph = in.scheduled.graph;
  const IrNode& loop = graph.nodes[static_cast<size_t>(in.group.anchor)];
  LoweredKernel kernel;
  kernel.loop = loop.planned;
  kernel.source.name = "loop";
  const auto bind = [&](const SlotRef& slot, DType dtype, Access access) {
    kernel.source.buffers.push_back({fmt::format("b{}", kernel.bindings.size()), dtype, access});
    kernel.bindings.push_back(slot);
  };
  for (int input : loop.inputs) {
    const Operand operand = resolve_operand(in.scheduled, in.group, input, "x");
    bind(operand.slot, operand.dtype, Access::read);
  }
  for (const Member& member : in.group.members) {
    if (!member.stored) continue;
    const int assigned = in.scheduled.assigned_slot(member.node);
    const SlotRef slot =
        assigned >= 0 ? SlotRef{SlotRef::Kind::input, assigned} : SlotRef{SlotRef::Kind::vertex, member.node};
    bind(slot, graph.nodes[static_cast<size_t>(member.node)].dtype, Access::write);
  }
  return kernel;
}

}  // namespace heddle
