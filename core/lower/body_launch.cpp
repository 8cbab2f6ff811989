#include "heddle/core/lower/body_launch.h"

#include <fmt/format.h>

#include <algorithm>

#include "heddle/core/base/error.h"
#include "heddle/core/lower/operand.h"

namespace heddle {

void check_body_start(int64_t offset, const IrNode& node) {
  if (offset == 0) return;
  throw LimitError(fmt::format(
      "[{}] a value is larger than one binding may be (max_binding_bytes), and its rows do not begin where a binding "
      "can",
      node.op->name));
}

namespace {

SlotRef input_slot(const LowerInput& in, const BodyLaunch& launch, size_t i) {
  const IrNode& node = in.scheduled.graph.nodes[in.group.anchor];
  Operand operand = resolve_operand(in.scheduled, in.group, node.inputs[i], "x");
  if (in.section == nullptr) return operand.slot;
  std::vector<int> variables(static_cast<size_t>(operand.view.shape.rank()), -1);
  const bool by_rows = std::find(launch.by_rows.begin(), launch.by_rows.end(), i) != launch.by_rows.end();
  if (by_rows) variables[0] = 0;
  enter_operand(*in.section, operand, variables);
  check_body_start(operand.view.offset, node);
  return operand.slot;
}

}  // namespace

LoweredKernel assemble(const LowerInput& in, const BodyLaunch& launch) {
  const IrNode& node = in.scheduled.graph.nodes[in.group.anchor];
  Emitter e(in.scheduled, in.group, launch.file.constants.size(), false, in.section);
  if (in.section != nullptr && launch.divisible) in.section->touched->divisible.insert(0);
  e.store(in.group.anchor, "x", "0");
  check_body_start(e.section_offset(in.group.anchor), node);
  LoweredKernel kernel;
  kernel.source = launch.file.instantiate(launch.options);
  kernel.source.name = e.kernel_name();
  for (size_t i = 0; i < node.inputs.size(); ++i) kernel.bindings.push_back(input_slot(in, launch, i));
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
