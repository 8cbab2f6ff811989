#include "heddle/core/lower/body_launch.h"

#include <algorithm>

#include "heddle/core/lower/operand.h"

namespace heddle {

LoweredKernel assemble(const LowerInput& in, const BodyLaunch& launch) {
  const IrNode& node = in.scheduled.graph.nodes[in.group.anchor];
  Emitter e(in.scheduled, in.group, launch.file.constants.size());
  e.store(in.group.anchor, "x", "0");
  LoweredKernel kernel;
  kernel.source = launch.file.instantiate(launch.options);
  kernel.source.name = e.kernel_name();
  for (int input : node.inputs) kernel.bindings.push_back(resolve_operand(in.scheduled, in.group, input, "x").slot);
  kernel.bindings.push_back(e.slots()[0]);
  Bindings named;
  for (size_t i = 0; i < launch.constants.size(); ++i) {
    named[launch.file.constants[i].name] = launch.constants[i];
    kernel.constants.push_back(static_cast<uint32_t>(static_cast<int32_t>(launch.constants[i])));
  }
  const auto groups = launch.file.groups(launch.options.tunables, named);
  std::copy(groups.begin(), groups.end(), kernel.groups);
  kernel.loop_iterations = launch.iterations;
  return kernel;
}

}  // namespace heddle
