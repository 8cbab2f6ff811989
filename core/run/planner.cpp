#include "core/run/planner.h"

#include <optional>
#include <utility>

#include "core/lower/lower.h"
#include "core/memory/offload.h"
#include "core/run/loop_planner.h"
#include "core/schedule/schedule.h"
#include "core/simplify/join_parts.h"
#include "core/simplify/patterns.h"
#include "core/simplify/simplifier.h"
#include "core/simplify/verify.h"
#include "core/specialise/recompute.h"
#include "core/specialise/specialize.h"

namespace heddle {

Graph prepare(const Graph& imported, const Caps& caps, bool fuse, PassSet passes) {
  if (!fuse) return specialize(imported, caps, PassSet::all());
  Graph graph = simplify(imported, passes);
  verify_graph(graph, imported, "simplify");
  if (std::optional<Graph> joined = passes.has(Pass::parts) ? join_parts(graph) : std::nullopt) {
    verify_graph(*joined, imported, "parts");
    graph = simplify(*joined, passes.with(Pass::dead));
    verify_graph(graph, imported, "simplify after parts");
  }
  if (std::optional<Graph> matched = replace_patterns(graph, caps, passes)) {
    verify_graph(*matched, imported, "patterns");
    graph = simplify(*matched, passes.with(Pass::dead));
    verify_graph(graph, imported, "simplify after patterns");
  }
  if (passes.has(Pass::recompute)) {
    graph = recompute(std::move(graph));
    verify_graph(graph, imported, "recompute");
  }
  graph = specialize(std::move(graph), caps, passes);
  verify_graph(graph, imported, "specialize");
  return graph;
}

Plan make_plan(Graph prepared, const Caps& caps, bool fuse, PassSet passes, const Budget& budget) {
  Plan plan;
  const ScheduleLimits limits{.max_bindings = caps.max_bindings,
                              .fuse = fuse && passes.has(Pass::fuse),
                              .siblings = passes.has(Pass::siblings),
                              .cheap = passes.has(Pass::cheap),
                              .counted_loops = caps.max_loop_iterations < UINT64_MAX};
  plan.scheduled = schedule(plan_loops(std::move(prepared), caps, fuse, passes), limits);
  LowerOptions options = lower_options(caps);
  options.order = passes.has(Pass::order);
  options.horizontal = passes.has(Pass::horizontal);
  plan.kernels = lower(plan.scheduled, caps, options);
  const uint64_t host_bytes = fuse ? add_transfers(plan.scheduled, plan.kernels, caps) : 0;
  plan.memory = plan_memory(plan.scheduled, plan.kernels, caps);
  plan.memory.host_bytes = host_bytes;
  if (fuse) fit_budget(plan, budget, caps);
  return plan;
}

}  // namespace heddle
