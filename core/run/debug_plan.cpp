#include "heddle/core/run/debug_plan.h"

#include <fmt/format.h>

#include "heddle/core/base/print_error.h"
#include "heddle/core/memory/planned_loop.h"
#include "heddle/core/run/debug.h"
#include "heddle/core/run/describe.h"

namespace heddle {

void debug_graph(const Graph& before, const Graph& after, const Caps& caps) {
  if (debug_level() < 3) return;
  print_error("heddle: graph as recorded\n{}heddle: graph simplified\n{}heddle: passes\n{}", before.str(), after.str(),
              describe_passes(before, caps));
}

void debug_plan(const ScheduledGraph& scheduled, const std::vector<LoweredKernel>& kernels, const MemoryPlan& plan) {
  if (debug_level() < 2) return;
  print_error("heddle: {} groups\n{}heddle: memory\n{}", scheduled.groups.size(), scheduled.str(), plan.str());
  if (debug_level() < 4) return;
  for (const LoweredKernel& kernel : kernels) {
    if (kernel.loop) {
      print_error("heddle: {} times\n", kernel.loop->length);
      debug_plan(kernel.loop->body.scheduled, kernel.loop->body.kernels, kernel.loop->body.memory);
      continue;
    }
    const std::string size = kernel.joined.empty() ? fmt::format("{} groups", kernel.groups[0] * kernel.groups[1])
                                                   : fmt::format("{} joined rows", kernel.joined.size());
    print_error("heddle: kernel, {}\n{}\n", size, kernel.source.str());
  }
}

}  // namespace heddle
