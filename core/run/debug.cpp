#include "heddle/core/run/debug.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>
#include <cstdlib>
#include <numeric>

#include "heddle/core/base/print_error.h"
#include "heddle/core/inspect/saved_launch.h"
#include "heddle/core/memory/planned_loop.h"
#include "heddle/core/run/describe.h"

namespace heddle {

int debug_level() {
  static const int level = [] {
    const char* text = std::getenv("HEDDLE_DEBUG");
    return text ? std::atoi(text) : 0;
  }();
  return level;
}

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

void debug_times(const std::string& id, Device& device, Ticket ticket, const std::vector<KernelFacts>& kernels) {
  if (debug_level() < 1) return;
  std::vector<double> seconds;
  device.wait(ticket, &seconds);
  print_error("heddle: step of {} kernels, {:.1f} us on {}\n", kernels.size(),
              1e6 * std::accumulate(seconds.begin(), seconds.end(), 0.0), id);
  for (size_t k = 0; k < kernels.size() && k < seconds.size(); ++k) {
    const KernelFacts& f = kernels[k];
    const double rate = seconds[k] > 0 ? f.bytes() / seconds[k] * 1e-9 : 0;
    print_error("  {:9.1f} us {:8.3f} MB {:6.1f} GB/s  {}{}{}{}  {}\n", 1e6 * seconds[k], f.bytes() * 1e-6, rate,
                f.name, f.lines.empty() ? "" : "  (", fmt::join(f.lines, ", "), f.lines.empty() ? "" : ")",
                f.source == 0 ? "" : repeat_command(f.launch, id));
  }
}

}  // namespace heddle
