#include "heddle/core/memory/memory_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "heddle/core/memory/plan.h"
#include "heddle/core/memory/planned_loop.h"

namespace heddle {
namespace {

std::string row(const char* what, uint64_t bytes) {
  return fmt::format("  {:<28}{:>12.3f} MB\n", what, static_cast<double>(bytes) * 1e-6);
}

void count_leaves(const Capture& captured, MemoryReport& report) {
  std::set<const Storage*> counted;
  const std::set<const Node*> overwritten(captured.overwritten.begin(), captured.overwritten.end());
  for (const NodePtr& node : captured.order) {
    if (!node->storage || !counted.insert(node->storage.get()).second) continue;
    uint64_t& kind = node->tracks                       ? report.parameters
                     : overwritten.contains(node.get()) ? report.optimizer_state
                                                        : report.inputs;
    kind += node->storage->bytes();
  }
}

}  // namespace

MemoryReport make_memory_report(const Capture& captured, const Plan& planned) {
  const auto& [scheduled, kernels, plan] = planned;
  MemoryReport report;
  count_leaves(captured, report);
  for (const Lifetime& life : plan.lifetimes) {
    if (life.first > plan.fullest || life.last < plan.fullest) continue;
    const int origin = scheduled.graph.nodes[static_cast<size_t>(life.vertex)].origin;
    uint64_t& kind = origin < 0                                            ? report.workspace
                     : captured.order[static_cast<size_t>(origin)]->tracks ? report.activations
                                                                           : report.gradients;
    kind += life.bytes;
  }
  report.lower_bound = report.activations + report.gradients + report.workspace;
  report.arena = plan.arena.total();
  report.offloaded = plan.host_bytes;
  report.outputs = std::accumulate(plan.own_bytes.begin(), plan.own_bytes.end(), uint64_t{0});
  for (const IrNode& node : scheduled.graph.nodes) {
    const bool stored = node.leaf < 0 && node.op->kind != OpKind::movement && node.op->kind != OpKind::constant;
    if (stored) report.all_values += static_cast<uint64_t>(node.shape.numel()) * size_of(node.dtype);
  }
  for (const LoweredKernel& kernel : kernels) report.kernels += launches_of(kernel);
  return report;
}

std::string MemoryReport::str() const {
  const auto ratio = [&](uint64_t whole) {
    return whole ? static_cast<double>(arena) / static_cast<double>(whole) : 1.0;
  };
  std::string text = "held before the step\n" + row("parameters", parameters) +
                     row("optimizer state", optimizer_state) + row("inputs and constants", inputs);
  text += "temporaries at the fullest moment\n" + row("activations", activations) + row("gradients", gradients) +
          row("workspace", workspace);
  text += row("together (lower bound)", lower_bound) + row("arena", arena);
  text += fmt::format("  arena / lower bound         {:>12.2f}\n  arena / all values          {:>12.2f}\n",
                      ratio(lower_bound), ratio(all_values));
  if (offloaded > 0) text += "in host memory\n" + row("offloaded", offloaded);
  text += "results\n" + row("outputs", outputs) +
          fmt::format("peak, predicted\n{}kernels{:>35}\n", row("all together", peak()), kernels);
  if (measured > 0) text += "held when it ran\n" + row("the device's, in all", measured);
  return text;
}

}  // namespace heddle
