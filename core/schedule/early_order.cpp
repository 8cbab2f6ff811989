#include "heddle/core/schedule/early_order.h"

#include <algorithm>
#include <utility>

#include "heddle/core/schedule/kernel_order.h"

namespace heddle {
namespace {

// The vertex in whose memory a part of a join lies.
int whole_of(const ScheduledGraph& scheduled, int vertex) {
  for (auto at = scheduled.placed.find(vertex); at != scheduled.placed.end(); at = scheduled.placed.find(vertex))
    vertex = at->second.join;
  return vertex;
}

}  // namespace

bool writes_output(const ScheduledGraph& scheduled, const LoweredKernel& kernel, const OutputPlan& output) {
  const int whole = whole_of(scheduled, output.base);
  return std::any_of(kernel.writes.begin(), kernel.writes.end(),
                     [&](int vertex) { return whole_of(scheduled, vertex) == whole; });
}

std::vector<size_t> first_needed_for(const ScheduledGraph& scheduled, const std::vector<LoweredKernel>& kernels) {
  std::vector<size_t> first(kernels.size(), scheduled.early.size());
  for (size_t k = 0; k < kernels.size(); ++k) {
    for (size_t e = scheduled.early.size(); e-- > 0;) {
      if (writes_output(scheduled, kernels[k], scheduled.outputs[static_cast<size_t>(scheduled.early[e])]))
        first[k] = e;
    }
  }
  const KernelDependencies dependencies(kernels);
  for (size_t k = kernels.size(); k-- > 0;) {
    for (const size_t later : dependencies.after[k]) first[k] = std::min(first[k], first[later]);
  }
  return first;
}

std::vector<size_t> order_for_early(const ScheduledGraph& scheduled, const std::vector<LoweredKernel>& kernels,
                                    std::vector<size_t> order) {
  const std::vector<size_t> first = first_needed_for(scheduled, kernels);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return first[a] < first[b]; });
  return order;
}

}  // namespace heddle
