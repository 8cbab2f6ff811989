#include "heddle/core/ir/kernel_cost.h"

#include "heddle/core/ir/bodies.h"

namespace heddle {
double vertex_operations(const Graph& graph, const IrNode& node) {
  const double own = static_cast<double>(node.shape.numel());
  switch (node.op->kind) {
    case OpKind::elementwise:
      return own * node.op->cost;
    case OpKind::reduce:
      return static_cast<double>(graph.nodes[static_cast<size_t>(node.inputs[0])].shape.numel());
    case OpKind::contraction: {
      const Shape& a = graph.nodes[static_cast<size_t>(node.inputs[0])].shape;
      return 2 * own * static_cast<double>(a[a.rank() - 1]);
    }
    case OpKind::body: {
      const BodyRow& row = body_row(*node.op);
      return row.flops ? row.flops(graph, node) : own;
    }
    default:
      return 0;
  }
}

std::map<int, double> stored_operations(const ScheduledGraph& scheduled) {
  std::map<int, double> operations;
  for (const Group& group : scheduled.groups) {
    double sum = 0;
    for (const Member& member : group.members)
      sum += vertex_operations(scheduled.graph, scheduled.graph.nodes[static_cast<size_t>(member.node)]);
    for (int inlined : group.inlined)
      sum += vertex_operations(scheduled.graph, scheduled.graph.nodes[static_cast<size_t>(inlined)]);
    for (const Member& member : group.members) {
      if (member.stored) operations[member.node] = sum;
    }
  }
  return operations;
}

double launch_cost(double bytes, double operations, DeviceClass device_class) {
  const bool gpu = device_class == DeviceClass::discrete_gpu || device_class == DeviceClass::integrated_gpu;
  const double operations_per_byte = gpu ? 20 : 8, bytes_per_launch = gpu ? 1e6 : 3e4;
  return bytes + operations / operations_per_byte + bytes_per_launch;
}

}  // namespace heddle
