#include "core/exec/dump.h"

#include <fmt/format.h>

#include "core/base/error.h"
#include "core/exec/loop.h"
#include "core/exec/passes/describe.h"
#include "core/exec/pending.h"
#include "core/exec/plan.h"
#include "core/exec/recompute.h"

namespace heddle {
namespace {

// The body of a loop stands in its place, once.
std::string sources(const std::vector<LoweredKernel>& kernels) {
  std::string text;
  for (const LoweredKernel& kernel : kernels) {
    if (kernel.loop) text += fmt::format("// {} times:\n{}// to here\n", kernel.loop->length, sources(kernel.loop->body.kernels));
    else text += kernel.source.str() + "\n";
  }
  return text;
}

// The groups or plan of the step and of the bodies of its loops.
std::string with_bodies(const PlannedStep& step, DumpWhat what) {
  std::string text = what == DumpWhat::groups ? step.scheduled.str() : step.plan.str();
  for (const LoweredKernel& kernel : step.kernels) {
    if (kernel.loop) text += fmt::format("body of a loop of {} iterations\n{}", kernel.loop->length, with_bodies(kernel.loop->body, what));
  }
  return text;
}

std::string dump_device(const DeviceContext& device, std::span<const NodePtr> roots, DumpWhat what) {
  const Graph imported = import_graph(capture(roots));
  if (what == DumpWhat::graph) return imported.str();
  if (what == DumpWhat::passes) return describe_passes(imported, device.caps());
  if (what == DumpWhat::simplified || device.caps().target == Target::none) return recompute(simplify(imported)).str();
  const PlannedStep step = plan_step(prepare(imported, device.caps()), device.caps());
  if (what == DumpWhat::groups || what == DumpWhat::plan) return with_bodies(step, what);
  return sources(step.kernels);
}

}  // namespace

StepLedger plan_pending() {
  const std::vector<NodePtr> roots = held_pending();
  if (roots.empty()) throw ValueError("[plan] nothing is pending");
  const DeviceContext& device = *roots[0]->device;
  for (const NodePtr& node : roots) {
    if (node->device != &device) throw ValueError(fmt::format("[plan] work is pending on {} and on {}; plan one device at a time", device.id(), node->device->id()));
  }
  if (device.caps().target == Target::none) throw ValueError(fmt::format("[plan] {} takes no kernels, so it has no plan", device.id()));
  const Capture captured = capture(roots);
  return make_ledger(captured, plan_step(prepare(import_graph(captured), device.caps()), device.caps()));
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
