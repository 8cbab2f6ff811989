#include "heddle/distributed/forecast/mesh_search.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <string>

#include "heddle/core/base/error.h"
#include "heddle/distributed/forecast/mesh_share.h"

namespace heddle::distributed {
namespace {

std::string mesh_text(int64_t pp, int64_t dp, int64_t cp, int64_t tp) {
  std::vector<std::string> axes;
  for (const auto& [name, size] : {std::pair{"pp", pp}, {"dp", dp}, {"cp", cp}, {"tp", tp}})
    if (size > 1) axes.push_back(fmt::format("{}={}", name, size));
  return axes.empty() ? "dp=1" : fmt::format("{}", fmt::join(axes, ","));
}

std::vector<int64_t> divisors(int64_t n) {
  std::vector<int64_t> found;
  for (int64_t i = 1; i <= n; ++i)
    if (n % i == 0) found.push_back(i);
  return found;
}

bool is_power_of_two(int64_t n) { return (n & (n - 1)) == 0; }

// All meshes of so many ranks that the model's sizes allow.
std::vector<std::string> meshes_of(const StepLayers& step, int64_t ranks) {
  std::vector<std::string> found;
  for (const int64_t pp : divisors(ranks)) {
    if (pp > static_cast<int64_t>(step.blocks.size())) break;
    for (const int64_t tp : divisors(ranks / pp)) {
      if (!is_power_of_two(tp) || tp > std::max<int64_t>(step.heads, 1)) continue;
      for (const int64_t cp : divisors(ranks / pp / tp)) {
        if (is_power_of_two(cp) && cp <= std::max<int64_t>(step.sequence, 1))
          found.push_back(mesh_text(pp, ranks / pp / tp / cp, cp, tp));
      }
    }
  }
  return found;
}

// Nothing where this mesh does not divide what there is.
std::optional<MeshForecast> tried(const StepLayers& step, const Cluster& cluster, const ForecastOptions& options) {
  try {
    const MeshShare share = share_of(step, cluster.links, options);
    (void)pipeline_order(options.schedule,
                         {.stages = share.pp, .microbatches = share.microbatches, .chunks = options.chunks});
  } catch (const ValueError&) {
    return std::nullopt;
  }
  return forecast(step, cluster, options);
}

}  // namespace

std::vector<MeshForecast> search_meshes(const StepLayers& step, const Cluster& cluster, const ForecastOptions& options,
                                        int64_t ranks) {
  if (ranks < 1 || ranks > most_ranks)
    throw ValueError(
        fmt::format("[plan] --search is {}; it must be a number of ranks from 1 to {}", ranks, most_ranks));
  if (options.batch < 1) throw ValueError(fmt::format("[plan] --batch is {}; it must be at least 1", options.batch));
  std::vector<MeshForecast> fitting;
  std::optional<MeshForecast> smallest;
  ForecastOptions each = options;
  for (const std::string& mesh : meshes_of(step, ranks)) {
    each.mesh = mesh;
    std::optional<MeshForecast> made = tried(step, cluster, each);
    if (!made) continue;
    if (!smallest || made->peak() < smallest->peak()) smallest = made;
    if (made->peak() <= cluster.machine.memory) fitting.push_back(std::move(*made));
  }
  if (!smallest)
    throw ValueError(
        fmt::format("[plan] no mesh of {} ranks divides {} and a batch of {}", ranks, step.name, options.batch));
  if (fitting.empty())
    throw ValueError(fmt::format("[plan] no mesh of {} ranks fits into {:.1f} GB a rank; {} needs {:.1f} GB, the least",
                                 ranks, cluster.machine.memory * 1e-9, smallest->mesh, smallest->peak() * 1e-9));
  std::stable_sort(fitting.begin(), fitting.end(),
                   [](const MeshForecast& a, const MeshForecast& b) { return a.step_seconds < b.step_seconds; });
  return fitting;
}

}  // namespace heddle::distributed
