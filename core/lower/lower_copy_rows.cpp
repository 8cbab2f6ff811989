// copy_rows: shaders/copy_rows.hk. Where the planner lets the result lie in its first operand's memory, only the rows
// are written.
#include "heddle/core/ir/copy_rows_vertex.h"
#include "heddle/core/lower/body_launch.h"
#include "heddle/core/lower/body_lowering.h"
#include "heddle/core/lower/operand.h"
#include "heddle/core/op/attrs.h"
#include "heddle/core/op/primitives.h"

namespace heddle {

LoweredKernel lower_copy_rows(const LowerInput& in) {
  const Graph& graph = in.scheduled.graph;
  const IrNode& node = graph.nodes[in.group.anchor];
  const auto operand = [&](size_t input) { return resolve_operand(in.scheduled, in.group, node.inputs[input], "x"); };
  const int axis = axis_of(node.attrs);
  const View source = *copied_rows(operand(2).view, axis);
  const bool whole = !updates_operand(in.scheduled, in.group);
  BodyLaunch launch{
      KernelFile::builtin("copy_rows"),
      {},
      {source.shape[0], source.shape[1], node.shape[axis], source.shape[3], source.shape[2], source.offset},
      0};
  for (size_t d = 0; d < 3; ++d) launch.constants.push_back(source.strides[d]);
  launch.options.types = {{"T", node.dtype}, {"K", operand(1).dtype}};
  launch.options.tunables = {{"WHOLE", whole ? 1 : 0}, {"LANES", 256}};
  if (!whole) launch.options.dropped_buffers = {"base"};
  launch.iterations = source.shape[2] + 16;
  LoweredKernel kernel = assemble(in, launch);
  if (!whole) kernel.bindings.erase(kernel.bindings.begin());
  return kernel;
}

}  // namespace heddle
