#include "core/exec/kernel_cost.h"

#include <algorithm>

#include "core/graph/primitives.h"

namespace heddle {
namespace {

double numel(const Graph& graph, int vertex) { return static_cast<double>(graph.nodes[static_cast<size_t>(vertex)].shape.numel()); }

// 2 N O (sizes of the result) C/groups (sizes of the kernel), whichever of the three is computed.
double convolution(const Graph& graph, const IrNode& node, double own) {
  const bool forward = node.op == &ops::conv_op, weights = node.op == &ops::conv_weight_grad_op;
  const double images = forward ? own : numel(graph, node.inputs[weights ? 1 : 0]);
  const Shape& kernel = weights ? node.shape : graph.nodes[static_cast<size_t>(node.inputs[1])].shape;
  const double channels = static_cast<double>(std::max<int64_t>(1, kernel[weights && node.attrs.real > 0 ? 1 : 0]));
  return 2 * images * static_cast<double>(kernel.numel()) / channels;
}

}  // namespace

double vertex_operations(const Graph& graph, int vertex) {
  const IrNode& node = graph.nodes[static_cast<size_t>(vertex)];
  const double own = numel(graph, vertex);
  if (node.leaf >= 0 || node.op->kind == OpKind::movement || node.op->kind == OpKind::constant) return 0;
  if (node.op == &ops::matmul_op) {
    const Shape& a = graph.nodes[static_cast<size_t>(node.inputs[0])].shape;
    return 2 * own * static_cast<double>(a[a.rank() - 1]);
  }
  if (node.op == &ops::conv_op || node.op == &ops::conv_input_grad_op || node.op == &ops::conv_weight_grad_op) return convolution(graph, node, own);
  if (node.op->kind == OpKind::body && node.inputs.size() >= 3) {  // attention and its gradients: two to five products of queries and keys
    const Shape& keys = graph.nodes[static_cast<size_t>(node.inputs[1])].shape;
    return keys.rank() < 2 ? 10 * own : 6 * numel(graph, node.inputs[0]) * static_cast<double>(keys[keys.rank() - 2]);
  }
  if (node.op->kind == OpKind::reduce) return numel(graph, node.inputs[0]);
  return own * node.op->cost;
}

std::map<int, double> stored_operations(const ScheduledGraph& scheduled) {
  std::map<int, double> operations;
  for (const Group& group : scheduled.groups) {
    double sum = 0;
    for (const Member& member : group.members) sum += vertex_operations(scheduled.graph, member.node);
    for (int inlined : group.inlined) sum += vertex_operations(scheduled.graph, inlined);
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
