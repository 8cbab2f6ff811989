// scatter_rows: shaders/scatter_add.hk over dense operands (the materializer made them so).
#include <algorithm>

#include "heddle/core/dialect/kernel_file.h"
#include "heddle/core/lower/body_lowering.h"
#include "heddle/core/lower/operand.h"

namespace heddle {

LoweredKernel lower_scatter_rows(const LowerInput& in) {
  const Graph& graph = in.scheduled.graph;
  const int anchor = in.group.anchor;
  const IrNode& node = graph.nodes[anchor];
  const KernelFile& file = KernelFile::builtin("scatter_add");
  Emitter e(in.scheduled, in.group, file.constants.size());
  const Operand base = resolve_operand(in.scheduled, in.group, node.inputs[0], "x");
  const Operand index = resolve_operand(in.scheduled, in.group, node.inputs[1], "x");
  const Operand updates = resolve_operand(in.scheduled, in.group, node.inputs[2], "x");
  const int64_t rows = node.shape[0], columns = rows == 0 ? 0 : node.shape.numel() / rows, count = index.view.shape[0];

  // The element type of narrow integers is theirs while they lie in memory; the body's T covers the wide ones.
  KernelFile::Options options;
  options.types = {{"T", node.dtype}, {"I", index.dtype}};
  options.tunables = {{"SCHEDULE", in.options.loop_lanes ? 1 : 0}};
  const std::vector<int64_t> constants{
      rows, columns, count, base.view.offset, columns, 1, index.view.offset, 1, updates.view.offset, columns, 1};

  // The result goes wherever the planner put this vertex: its buffer is the emitter's.
  e.store(anchor, "x", "0");
  LoweredKernel kernel;
  kernel.source = file.instantiate(options);
  kernel.source.name = e.kernel_name();
  kernel.bindings = {base.slot, index.slot, updates.slot, e.slots()[0]};
  Bindings named;
  for (size_t i = 0; i < constants.size(); ++i) {
    named[file.constants[i].name] = constants[i];
    kernel.constants.push_back(static_cast<uint32_t>(static_cast<int32_t>(constants[i])));
  }
  const auto groups = file.groups(options.tunables, named);
  std::copy(groups.begin(), groups.end(), kernel.groups);
  kernel.loop_iterations = count + 16;
  return kernel;
}

}  // namespace heddle
