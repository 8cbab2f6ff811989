#include "core/exec/debug.h"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <numeric>

#include "core/exec/loop.h"
#include "core/exec/passes/describe.h"

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
  fmt::print(stderr, "heddle: graph as recorded\n{}heddle: graph simplified\n{}heddle: passes\n{}", before.str(), after.str(), describe_passes(before, caps));
}

void debug_plan(const ScheduledGraph& scheduled, const std::vector<LoweredKernel>& kernels, const Plan& plan) {
  if (debug_level() < 2) return;
  fmt::print(stderr, "heddle: {} groups\n{}heddle: memory\n{}", scheduled.groups.size(), scheduled.str(), plan.str());
  if (debug_level() < 4) return;
  for (const LoweredKernel& kernel : kernels) {
    if (kernel.loop) {
      fmt::print(stderr, "heddle: {} times\n", kernel.loop->length);
      debug_plan(kernel.loop->body.scheduled, kernel.loop->body.kernels, kernel.loop->body.plan);
      continue;
    }
    const std::string size = kernel.segments.empty() ? fmt::format("{} groups", kernel.groups[0] * kernel.groups[1]) : fmt::format("{} segments", kernel.segments.size());
    fmt::print(stderr, "heddle: kernel, {}\n{}\n", size, kernel.source.str());
  }
}

void debug_times(Device& device, Ticket ticket, const std::vector<std::string_view>& kernels) {
  if (debug_level() < 1) return;
  std::vector<double> seconds;
  device.wait(ticket, &seconds);
  fmt::print(stderr, "heddle: step of {} kernels, {:.1f} us on the device\n", kernels.size(), 1e6 * std::accumulate(seconds.begin(), seconds.end(), 0.0));
  for (size_t k = 0; k < kernels.size() && k < seconds.size(); ++k) fmt::print(stderr, "  {:9.1f} us  {}\n", 1e6 * seconds[k], kernels[k]);
}

}  // namespace heddle
