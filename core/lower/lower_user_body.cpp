// Bodies that users wrote (core/functions/user/user_kernel.h), over dense operands that begin with their buffers.
#include <algorithm>

#include "heddle/core/functions/user/user_body.h"
#include "heddle/core/lower/body_lowering.h"
#include "heddle/core/lower/operand.h"

namespace heddle {

LoweredKernel lower_user_body(const LowerInput& in) {
  const Graph& graph = in.scheduled.graph;
  const int anchor = in.group.anchor;
  const IrNode& node = graph.nodes[anchor];
  const UserDefinition& definition = *as_user(*node.op)->definition;
  const KernelFile& file = definition.file;
  std::vector<TensorType> types;
  std::vector<Operand> operands;
  for (const int input : node.inputs) {
    types.push_back({graph.nodes[input].shape, graph.nodes[input].dtype});
    operands.push_back(resolve_operand(in.scheduled, in.group, input, "x"));
  }
  Emitter e(in.scheduled, in.group, file.constants.size());
  e.store(anchor, "x", "0");
  LoweredKernel kernel;
  kernel.source = user_body_source(definition, types, node.dtype);
  kernel.source.name = e.kernel_name();
  size_t next = 0;
  for (const BufferParam& buffer : kernel.source.buffers)
    kernel.bindings.push_back(buffer.access == Access::read ? operands[next++].slot : e.slots()[0]);
  for (const int64_t bits : node.attrs.ints)
    kernel.constants.push_back(static_cast<uint32_t>(static_cast<int32_t>(bits)));
  const auto groups = file.groups(definition.body.tunables, user_body_constants(file, node.attrs.ints));
  std::copy(groups.begin(), groups.end(), kernel.groups);
  kernel.loop_iterations = definition.body.iterations;
  return kernel;
}

}  // namespace heddle
