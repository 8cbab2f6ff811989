#include "heddle/core/lower/lower.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <stdexcept>

#include "heddle/core/base/error.h"
#include "heddle/core/ir/source_lines.h"
#include "heddle/core/lower/body_lowering.h"
#include "heddle/core/lower/horizontal.h"
#include "heddle/core/lower/lower_elementwise.h"
#include "heddle/core/lower/lower_loop.h"
#include "heddle/core/lower/lower_matmul.h"
#include "heddle/core/lower/lower_reduce.h"
#include "heddle/core/lower/sections.h"
#include "heddle/core/op/primitives.h"
#include "heddle/core/schedule/early_order.h"
#include "heddle/core/schedule/kernel_order.h"

namespace heddle {

LowerOptions lower_options(const Caps& caps, PassSet passes) {
  return {.loop_lanes = caps.machine() == Machine::cpu_loops, .passes = passes};
}

namespace {

void check_extents(const Graph& graph, const Group& group) {
  const auto check = [&](int id) {
    if (graph.nodes[id].shape.numel() > addressable_elements) {
      throw LimitError(fmt::format(
          "[eval] what this line records needs a value {} ('{}') of {} elements, and one kernel can address {}: "
          "compute it in parts, e.g. of slices",
          graph.nodes[id].shape.str(), graph.nodes[id].op->name, graph.nodes[id].shape.numel(), addressable_elements));
    }
  };
  for (const Member& member : group.members) {
    check(member.node);
    for (int input : graph.nodes[member.node].inputs) check(input);
  }
}

// f64 and i64 kernels need the device's support: refused with its name, never narrowed in silence. What a group loads
// counts as what it computes: isinf of f64 gives bool.
void check_types(const Graph& graph, const Group& group, const Caps& caps) {
  const auto refuse = [&](const IrNode& node, DType t) {
    throw DTypeError(fmt::format("[{0}] {1} is not supported by this device (caps.{1})", node.op->name, name_of(t)));
  };
  const auto check = [&](int id) {
    const IrNode& node = graph.nodes[id];
    const auto has = [&](DType t) {
      return node.dtype == t || std::any_of(node.inputs.begin(), node.inputs.end(),
                                            [&](int input) { return graph.nodes[input].dtype == t; });
    };
    if (!caps.f64 && has(DType::f64)) refuse(node, DType::f64);
    if (!caps.i64 && has(DType::i64)) refuse(node, DType::i64);
    if (node.dtype == DType::f64 && node.op->transcendental && !caps.f64_math) {
      throw DTypeError(fmt::format(
          "[{}] f64 is not supported by this device for this function (caps.f64_math); cast to f32", node.op->name));
    }
  };
  for (const Member& member : group.members) check(member.node);
  for (int id : group.inlined) check(id);
}

// A driver that ends long loops in silence would give wrong values: better none.
void check_loops(const LoweredKernel& kernel, const Caps& caps) {
  const uint64_t iterations = static_cast<uint64_t>(kernel.loop_iterations);
  if (iterations <= caps.max_loop_iterations) return;
  throw LimitError(
      fmt::format("[{}] one work item would loop {} times, and this driver stops loops after {} (max_loop_iterations); "
                  "reduce in two steps, or use another device",
                  kernel.source.name, iterations, caps.max_loop_iterations));
}

LoweredKernel lower_by_kind(const LowerInput& in) {
  LoweredKernel kernel;
  switch (in.group.kind) {
    case GroupKind::elementwise:
      kernel = lower_elementwise(in);
      break;
    case GroupKind::reduce:
      kernel = lower_reduce(in);
      break;
    case GroupKind::matmul:
      kernel = lower_matmul(in);
      break;
    case GroupKind::join:
      throw std::logic_error("[lower] a join has no kernel");
    case GroupKind::loop:
      kernel = lower_loop(in);
      break;
    case GroupKind::body:
      kernel = lower_body(in);
      break;
  }
  return kernel;
}

// A table holds more numbers than the constants of a launch: a kernel of one joined row.
LoweredKernel with_numbers_in_table(const LowerInput& in, LoweredKernel kernel) {
  LowerOptions options = in.options;
  options.joined = true;
  LoweredKernel other = lower_by_kind({in.scheduled, in.group, in.caps, options});
  if (other.source.buffers.size() > in.caps.max_bindings || other.joined[0].constants.size() > most_joined_numbers)
    return kernel;
  other.parallel = false;
  return other;
}

LoweredKernel lower_group(const LowerInput& in, const BindingLimit* limit) {
  const bool cut = limit != nullptr && limit->is_exceeded_by(in.group);
  LoweredKernel kernel = cut ? lower_in_sections(in, *limit, lower_by_kind) : lower_by_kind(in);
  if (kernel.sized && (in.group.kind == GroupKind::elementwise || in.group.kind == GroupKind::reduce))
    kernel = with_numbers_in_table(in, std::move(kernel));
  check_loops(kernel, in.caps);
  for (const Member& member : in.group.members) {
    if (member.stored) kernel.writes.push_back(member.node);
    kernel.vertices.push_back(member.node);
  }
  kernel.vertices.insert(kernel.vertices.end(), in.group.inlined.begin(), in.group.inlined.end());
  return kernel;
}

LoweredKernel lower_joined(const LowerInput& in) { return lower_group(in, nullptr); }

// What a device refuses is refused with the place of the operation.
LoweredKernel checked_lower(const ScheduledGraph& scheduled, const Group& group, const Caps& caps,
                            const LowerOptions& options, const BindingLimit& limit) {
  const auto lowered = [&] {
    check_extents(scheduled.graph, group);
    check_types(scheduled.graph, group, caps);
    return lower_group({scheduled, group, caps, options}, &limit);
  };
  try {
    return lowered();
  } catch (const Error&) {  // again, to say where: the place is only looked for when something is wrong
    const LineScope scope(group_line(scheduled.graph, group));
    try {
      return lowered();
    } catch (const LimitError& error) {
      throw LimitError(with_line(error.what()));
    }
  }
}

}  // namespace

std::vector<LoweredKernel> lower(const ScheduledGraph& scheduled, const Caps& caps, const LowerOptions& options) {
  std::vector<LoweredKernel> kernels;
  std::vector<const Group*> groups;
  const BindingLimit limit(scheduled, caps);
  for (const Group& group : scheduled.groups) {
    bool any = false;
    for (const Member& member : group.members)
      any = any || (member.stored && scheduled.graph.nodes[member.node].shape.numel() > 0);
    if (!any || group.kind == GroupKind::join) continue;
    kernels.push_back(checked_lower(scheduled, group, caps, options, limit));
    groups.push_back(&group);
  }
  std::vector<LoweredKernel> ordered;
  std::vector<const Group*> ordered_groups;
  std::vector<size_t> order(kernels.size());
  std::iota(order.begin(), order.end(), size_t{0});
  if (options.passes.has(Pass::order)) order = order_for_memory(scheduled, kernels);
  if (!scheduled.early.empty()) order = order_for_early(scheduled, kernels, std::move(order));
  for (size_t k : order) {
    ordered.push_back(std::move(kernels[k]));
    ordered_groups.push_back(groups[k]);
  }
  return options.passes.has(Pass::horizontal)
             ? fuse_horizontally(scheduled, std::move(ordered), ordered_groups, caps, options, lower_joined)
             : ordered;
}

}  // namespace heddle
