// Elementwise groups: one pass over the output.
#include <fmt/format.h>

#include <algorithm>

#include "core/exec/lower.h"

namespace heddle {
namespace {

void emit_body(Emitter& e) {
  const Group& group = e.group();
  for (const Member& member : group.members) {
    if (!member.stored) continue;
    const std::string v = e.member_value(member);
    e.store(member.node, v, e.linear_index(group.domain, 0));
  }
}

// One work item per element, over a flat index.
LoweredKernel lanes_as_items(Emitter& e, const LowerInput& in, const std::vector<Axis>& axes) {
  const uint32_t lanes = in.caps.device_class == DeviceClass::cpu ? 64 : 256;
  const uint32_t size = std::min(lanes, in.caps.max_group_lanes);
  const int64_t total = extent(axes);
  // A segment's group looks its numbers up in the table first: several elements an item make that worth it.
  const int64_t each = !e.segmented() ? 1 : in.caps.device_class == DeviceClass::cpu ? 32 : 8;
  const std::string count = e.constant(total);
  if (each == 1) {
    e.line(fmt::format("int t_flat = {} * CAST(int, GROUP_SIZE(0)) + CAST(int, LOCAL_ID(0));", e.group_index()));
    e.open(fmt::format("if (t_flat < {})", count));
  } else {
    e.line(fmt::format("int t_start = {} * {} + CAST(int, LOCAL_ID(0));", e.group_index(), each * size));
    e.line(fmt::format("int t_stop = min(t_start + {}, {});", each * size, count));
    e.open(fmt::format("for (int t_flat = t_start; t_flat < t_stop; t_flat += {})", size));
  }
  split_index(e, axes, "t_flat");
  emit_body(e);
  e.close();
  return finish(e, in, {size, 1, 1}, (total + each * size - 1) / (each * size));
}

// One work item per block of rows and stretch of the innermost axis, with a loop the compiler vectorises.
LoweredKernel lanes_as_loop(Emitter& e, const LowerInput& in, std::vector<Axis> axes) {
  const int64_t total = extent(axes);
  const Axis inner = axes.empty() ? Axis{0, 1} : axes.back();
  if (!axes.empty()) axes.pop_back();
  const int64_t rows = extent(axes);
  // Enough units to balance the cores, each long enough to hide the cost of starting it.
  const int64_t wanted = e.segmented() ? 16384 : std::clamp<int64_t>(total / (4 * in.caps.compute_units), 2048, 16384);
  const int64_t stretch = inner.size <= 2 * wanted ? inner.size : wanted;
  const int64_t stretches = (inner.size + stretch - 1) / stretch;
  const int64_t block = stretches > 1 ? 1 : std::max<int64_t>(1, wanted / std::max<int64_t>(1, inner.size));
  const int64_t units = (rows + block - 1) / block * stretches;
  e.line(fmt::format("int t_unit = {};", e.group_index()));
  e.open(fmt::format("if (t_unit < {})", e.constant(units)));
  const std::string per_row = e.constant(stretches), rows_name = e.constant(rows), size = e.constant(inner.size);
  e.line(fmt::format("int t_first = t_unit / {} * {};", per_row, e.constant(block)));
  e.line(fmt::format("int t_last = min(t_first + {}, {});", e.constant(block), rows_name));
  e.line(fmt::format("int t_low = t_unit % {} * {};", per_row, e.constant(stretch)));
  e.line(fmt::format("int t_high = min(t_low + {}, {});", e.constant(stretch), size));
  e.open("for (int t_row = t_first; t_row < t_last; ++t_row)");
  split_index(e, axes, "t_row");
  const std::string i = inner.size > 1 ? e.names[inner.variable] : "t_once";
  e.open(fmt::format("VLOOP for (int {} = t_low; {} < t_high; ++{})", i, i, i));
  emit_body(e);
  e.close();
  e.close();
  e.close();
  return finish(e, in, {1, 1, 1}, units);
}

}  // namespace

LoweredKernel lower_elementwise(const LowerInput& in) {
  Emitter e(in.scheduled, in.group, 12, in.options.segmented);
  e.names.assign(static_cast<size_t>(Shape::max_rank), "t_d");
  emit_body(e);  // to learn the indices
  const std::vector<Axis> axes = merge_axes(e, in.group.domain, 0, "t_x");
  e.start_over();
  return in.options.loop_lanes ? lanes_as_loop(e, in, axes) : lanes_as_items(e, in, axes);
}

}  // namespace heddle
