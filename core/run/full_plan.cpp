#include "heddle/core/run/full_plan.h"

#include <fmt/format.h>

#include "heddle/core/base/error.h"
#include "heddle/core/graph/pending.h"
#include "heddle/core/ir/source_lines.h"
#include "heddle/core/record/capture.h"
#include "heddle/core/record/import_graph.h"
#include "heddle/core/simplify/simplifier.h"

namespace heddle {
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

}  // namespace heddle
