#include "heddle/core/run/planner.h"

#include <optional>
#include <utility>

#include "heddle/core/lower/lower.h"
#include "heddle/core/memory/offload.h"
#include "heddle/core/run/loop_planner.h"
#include "heddle/core/schedule/schedule.h"
#include "heddle/core/simplify/join_parts.h"
#include "heddle/core/simplify/patterns.h"
#include "heddle/core/simplify/simplifier.h"
#include "heddle/core/simplify/verify.h"
#include "heddle/core/specialise/recompute.h"
#include "heddle/core/specialise/specialize.h"

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

Graph with_planned_loops(Graph prepared, const Caps& caps, bool fuse, PassSet passes) {
  const BodyPlanner bodies{
      [&](const Graph& body) { return prepare(body, caps, fuse, passes); },
      [&](Graph body) { return make_plan(std::move(body), caps, fuse, passes); },
  };
  return plan_loops(std::move(prepared), caps, bodies);
}

Plan make_plan(Graph prepared, const Caps& caps, bool fuse, PassSet passes, const Budget& budget,
               const std::vector<int>& early) {
  Plan plan;
  const ScheduleLimits limits{.max_bindings = caps.max_bindings,
                              .passes = fuse ? passes : passes.without(Pass::fuse),
                              .counted_loops = caps.max_loop_iterations < UINT64_MAX,
                              .max_loop_ops = caps.max_loop_ops,
                              .max_binding_bytes = caps.max_binding_bytes};
  plan.scheduled = schedule(with_planned_loops(std::move(prepared), caps, fuse, passes), limits);
  plan.scheduled.early = early;
  plan.kernels = lower(plan.scheduled, caps, lower_options(caps, passes));
  const uint64_t host_bytes = fuse ? add_transfers(plan.scheduled, plan.kernels, caps) : 0;
  plan.memory = plan_memory(plan.scheduled, plan.kernels, caps);
  plan.memory.host_bytes = host_bytes;
  if (fuse) fit_budget(plan, budget, caps);
  return plan;
}

}  // namespace heddle
