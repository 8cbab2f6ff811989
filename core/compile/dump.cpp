#include "heddle/core/compile/dump.h"

#include <fmt/format.h>

#include "heddle/core/base/error.h"
#include "heddle/core/graph/pending.h"
#include "heddle/core/memory/planned_loop.h"
#include "heddle/core/record/capture.h"
#include "heddle/core/record/import_graph.h"
#include "heddle/core/run/describe.h"
#include "heddle/core/run/full_plan.h"
#include "heddle/core/run/planner.h"
#include "heddle/core/simplify/simplifier.h"
#include "heddle/core/specialise/recompute.h"

namespace heddle {
namespace {

// The body of a loop stands in its place, once.
std::string sources(const std::vector<LoweredKernel>& kernels) {
  std::string text;
  for (const LoweredKernel& kernel : kernels) {
    if (kernel.loop)
      text += fmt::format("// {} times:\n{}// to here\n", kernel.loop->length, sources(kernel.loop->body.kernels));
    else
      text += kernel.source.str() + "\n";
  }
  return text;
}

// The groups or plan of the graph and of the bodies of its loops.
std::string with_bodies(const Plan& plan, DumpWhat what) {
  std::string text = what == DumpWhat::groups ? plan.scheduled.str() : plan.memory.str();
  for (const LoweredKernel& kernel : plan.kernels) {
    if (kernel.loop)
      text +=
          fmt::format("body of a loop of {} iterations\n{}", kernel.loop->length, with_bodies(kernel.loop->body, what));
  }
  return text;
}

std::string dump_device(const DeviceContext& device, std::span<const NodePtr> roots, DumpWhat what) {
  const Capture captured = capture(roots);
  const Graph imported = import_graph(captured);
  if (what == DumpWhat::graph) return imported.str();
  if (what == DumpWhat::passes) return describe_passes(imported, device.caps());
  if (what == DumpWhat::simplified || device.caps().target == Target::none) return recompute(simplify(imported)).str();
  const Plan plan =
      make_plan(prepare(imported, device.caps()), device.caps(), true, active_passes(), graph_budget(device, captured));
  if (what == DumpWhat::groups || what == DumpWhat::plan) return with_bodies(plan, what);
  return sources(plan.kernels);
}

}  // namespace

MemoryReport plan_pending() { return plan_pending_in_full().report; }

std::string dump_pending(DumpWhat what) {
  std::vector<NodePtr> all = held_pending();
  std::string text;
  while (!all.empty()) {
    DeviceContext& device = *all.front()->device;
    std::vector<NodePtr> here;
    std::erase_if(all, [&](const NodePtr& node) {
      if (node->device != &device) return false;
      here.push_back(node);
      return true;
    });
    text += fmt::format("{}:\n{}", device.id(), dump_device(device, here, what));
  }
  return text;
}

}  // namespace heddle
