#include "heddle/core/run/debug.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>
#include <cstdlib>
#include <numeric>

#include "heddle/core/base/print_error.h"
#include "heddle/core/inspect/saved_launch.h"

namespace heddle {

int debug_level() {
  static const int level = [] {
    const char* text = std::getenv("HEDDLE_DEBUG");
    return text ? std::atoi(text) : 0;
  }();
  return level;
}

void debug_times(DeviceContext& device, Ticket ticket, const std::vector<KernelFacts>& kernels) {
  if (debug_level() < 1) return;
  const std::string& id = device.id();
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
