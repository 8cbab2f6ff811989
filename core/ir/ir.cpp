#include "heddle/core/ir/ir.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "heddle/core/op/primitives.h"

namespace heddle {

std::string Graph::str() const {
  std::string text;
  for (size_t i = 0; i < nodes.size(); ++i) {
    const IrNode& node = nodes[i];
    text += fmt::format("  %{} = {} {} {}", i, node.op->name, node.shape.str(), name_of(node.dtype));
    for (int input : node.inputs) text += fmt::format(" %{}", input);
    if (!node.attrs.ints.empty()) text += fmt::format(" [{}]", fmt::join(node.attrs.ints, ", "));
    if (node.op == &ops::full_op || node.op == &ops::iota_op)
      text += fmt::format(" {} {}", node.attrs.real, node.attrs.real2);
    if (node.leaf >= 0) {
      const LeafInfo& leaf = leaves[node.leaf];
      text += leaf.slot >= 0 ? fmt::format(" input {} {}", leaf.slot, leaf.view.is_dense() ? "" : leaf.view.str())
                             : fmt::format(" host value {}", leaf.host_slot);
    }
    if (node.loop) text += fmt::format(" {} times {{\n{}  }}", node.loop->shape.length, node.loop->body.str());
    text += '\n';
  }
  for (const IrOutput& output : outputs) {
    text += output.assign_slot >= 0 ? fmt::format("  output %{} -> input {}\n", output.node, output.assign_slot)
                                    : fmt::format("  output %{}\n", output.node);
  }
  return text;
}

}  // namespace heddle
