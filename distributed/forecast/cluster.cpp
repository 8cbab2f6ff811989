#include "heddle/distributed/forecast/cluster.h"

#include <fmt/format.h>

#include "heddle/core/base/error.h"

namespace heddle::distributed {
namespace {

constexpr double usable = 0.8;  // of a link's data sheet

Links nodes_of_eight(double within, double between) {
  return Links({{.name = "node", .ranks = 8, .bandwidth = usable * within, .latency = 5e-6},
                {.name = "cluster", .bandwidth = usable * between, .latency = 10e-6}});
}

}  // namespace

Cluster known_cluster(const std::string& name) {
  if (name == "dgx-a100")
    return {name,
            {.flops_f32 = 19.5e12,
             .flops_f16 = 312e12,
             .flops_bf16 = 312e12,
             .memory = 80e9,
             .memory_bandwidth = 2.039e12,
             .efficiency = 0.806,
             .half_size = 64},
            nodes_of_eight(300e9, 25e9)};
  if (name == "dgx-h100")
    return {name,
            {.flops_f32 = 67e12,
             .flops_f16 = 989e12,
             .flops_bf16 = 989e12,
             .memory = 80e9,
             .memory_bandwidth = 3.35e12,
             .efficiency = 0.579,
             .half_size = 64},
            nodes_of_eight(450e9, 50e9)};
  throw ValueError(fmt::format("[link] {} is neither a file nor a known cluster: dgx-a100, dgx-h100", name));
}

}  // namespace heddle::distributed
