#include "core/exec/dump.h"

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/exec/lower.h"
#include "core/exec/pending.h"
#include "core/exec/plan.h"
#include "core/exec/recompute.h"
#include "core/exec/specialize.h"

namespace heddle {
namespace {

std::string dump_device(const DeviceContext& device, std::span<const NodePtr> roots, DumpWhat what) {
  const Graph imported = import_graph(capture(roots));
  if (what == DumpWhat::graph) return imported.str();
  Graph simplified = recompute(simplify(imported));
  if (what == DumpWhat::simplified || device.caps().target == Target::none) return simplified.str();
  const ScheduledGraph scheduled = schedule(specialize(simplified, device.caps()), {device.caps().max_bindings, true});
  if (what == DumpWhat::groups) return scheduled.str();
  const std::vector<LoweredKernel> kernels = lower(scheduled, device.caps(), lower_options(device.caps()));
  if (what == DumpWhat::plan) return make_plan(scheduled, kernels, device.caps()).str();
  std::string text;
  for (const LoweredKernel& kernel : kernels) text += kernel.source.str() + "\n";
  return text;
}

struct Planned {
  Capture captured;
  ScheduledGraph scheduled;
  std::vector<LoweredKernel> kernels;
};

Planned plan_device(const DeviceContext& device, std::span<const NodePtr> roots) {
  Planned p;
  p.captured = capture(roots);
  p.scheduled = schedule(specialize(recompute(simplify(import_graph(p.captured))), device.caps()), {device.caps().max_bindings, true});
  p.kernels = lower(p.scheduled, device.caps(), lower_options(device.caps()));
  return p;
}

}  // namespace

MemoryLedger plan_pending() {
  const std::vector<NodePtr> roots = held_pending();
  if (roots.empty()) throw ValueError("[plan] nothing is pending");
  const DeviceContext& device = *roots[0]->device;
  for (const NodePtr& node : roots) {
    if (node->device != &device) throw ValueError(fmt::format("[plan] work is pending on {} and on {}; plan one device at a time", device.id(), node->device->id()));
  }
  if (device.caps().target == Target::none) throw ValueError(fmt::format("[plan] {} takes no kernels, so it has no plan", device.id()));
  const Planned p = plan_device(device, roots);
  return make_ledger(p.captured, p.scheduled, p.kernels, make_plan(p.scheduled, p.kernels, device.caps()));
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
