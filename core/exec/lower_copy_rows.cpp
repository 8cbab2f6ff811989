// copy_rows: shaders/copy_rows.hk. Where the planner lets the result lie in its first operand's memory, only the rows are written.
#include "core/exec/bodies.h"
#include "core/exec/body_launch.h"
#include "core/exec/operand.h"
#include "core/graph/primitives.h"

namespace heddle {
namespace {

// Rows along `axis` as (outer, outer, rows, elements), with the elements of a row one behind the other.
std::optional<View> as_rows(const View& view, int axis) {
  int64_t first = 1, second = 1, inner = 1;
  for (int d = 0; d < axis; ++d) second *= view.shape[d];
  for (int d = axis + 1; d < view.shape.rank(); ++d) inner *= view.shape[d];
  for (int cut = 0; cut <= axis; ++cut) {
    const std::optional<View> rows = view.reshape({first, second, view.shape[axis], inner});
    if (rows && (inner == 1 || rows->strides[3] == 1)) return rows;
    if (cut == axis) break;
    first *= view.shape[cut];
    second /= view.shape[cut];
  }
  return std::nullopt;
}

}  // namespace

// Every written element looks at the indices behind its own, so there must be few.
bool copy_rows_takes(const Node& node) { return node.inputs[1]->shape[0] <= 16 && node.inputs[2]->shape.numel() > 0; }

bool copy_rows_accepts(const IrNode& node, size_t input, const View& view) {
  return input == 2 ? as_rows(view, static_cast<int>(node.attrs.ints[0])).has_value() : view.is_dense();
}

LoweredKernel lower_copy_rows(const LowerInput& in) {
  const Graph& graph = in.scheduled.graph;
  const IrNode& node = graph.nodes[in.group.anchor];
  const auto operand = [&](size_t input) { return resolve_operand(in.scheduled, in.group, node.inputs[input], "x"); };
  const int axis = static_cast<int>(node.attrs.ints[0]);
  const View source = *as_rows(operand(2).view, axis);
  const bool whole = !updates_operand(in.scheduled, in.group);
  BodyLaunch launch{KernelFile::builtin("copy_rows"), {}, {source.shape[0], source.shape[1], node.shape[axis], source.shape[3], source.shape[2], source.offset}, 0};
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
