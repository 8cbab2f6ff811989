#include "heddle/core/run/early_cuts.h"

#include <algorithm>

#include "heddle/core/schedule/early_order.h"

namespace heddle {
namespace {

// How many launches have been made when the output has its value. What is copied back, and what no kernel writes, has
// it at the end.
size_t end_of(const Plan& plan, const std::vector<size_t>& kernels, const OutputPlan& output) {
  if (output.copy_back) return kernels.size();
  for (size_t l = kernels.size(); l > 0; --l) {
    if (writes_output(plan.scheduled, plan.kernels[kernels[l - 1]], output)) return l;
  }
  return kernels.size();
}

}  // namespace

EarlyCuts early_cuts(const Plan& plan, const std::vector<size_t>& kernels) {
  EarlyCuts made;
  size_t end = 0;
  for (const int output : plan.scheduled.early) {
    end = std::max(end, end_of(plan, kernels, plan.scheduled.outputs[static_cast<size_t>(output)]));
    const auto cut = static_cast<int32_t>(end);
    if (end < kernels.size() && (made.cuts.empty() || made.cuts.back() < cut)) made.cuts.push_back(cut);
    made.segments.push_back(end < kernels.size() ? made.cuts.size() - 1 : made.cuts.size());
  }
  return made;
}

}  // namespace heddle
