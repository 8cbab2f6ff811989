#include "core/run/dump.h"

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/graph/pending.h"
#include "core/ir/source_lines.h"
#include "core/memory/planned_loop.h"
#include "core/record/capture.h"
#include "core/run/describe.h"
#include "core/run/planner.h"
#include "core/simplify/simplifier.h"
#include "core/specialise/recompute.h"

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

namespace {

// What is pending, all of it on one device with kernels.
std::vector<NodePtr> roots_to_plan() {
  std::vector<NodePtr> roots = held_pending();
  if (roots.empty()) throw ValueError("[plan] nothing is pending");
  const DeviceContext& device = *roots[0]->device;
  for (const NodePtr& node : roots) {
    if (node->device != &device)
      throw ValueError(fmt::format("[plan] work is pending on {} and on {}; plan one device at a time", device.id(),
                                   node->device->id()));
  }
  if (device.caps().target == Target::none)
    throw ValueError(fmt::format("[plan] {} takes no kernels, so it has no plan", device.id()));
  return roots;
}

}  // namespace

MemoryReport plan_pending() { return plan_pending_in_full().report; }

FullPlan plan_pending_in_full() {
  const std::vector<NodePtr> roots = roots_to_plan();
  const DeviceContext& device = *roots[0]->device;
  const Capture captured = capture(roots);
  FullPlan full{.device = device.id(), .recorded = import_graph(captured)};
  full.prepared = prepare(full.recorded, device.caps());
  full.plan = make_plan(full.prepared, device.caps(), true, active_passes(), graph_budget(device, captured));
  full.kernels = kernel_facts(full.plan.scheduled, full.plan.kernels);
  const std::vector<std::vector<SourceLine>> lines = kernel_lines(full.plan.scheduled, full.plan.kernels, captured);
  for (size_t k = 0; k < full.kernels.size(); ++k) {
    for (const SourceLine& line : lines[k]) full.kernels[k].lines.push_back(line.str());
  }
  full.report = make_memory_report(captured, full.plan);
  return full;
}

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
