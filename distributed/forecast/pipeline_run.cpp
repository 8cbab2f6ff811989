#include "heddle/distributed/forecast/pipeline_run.h"

#include <algorithm>
#include <optional>
#include <stdexcept>

namespace heddle::distributed {
namespace {

class Run {
 public:
  Run(const std::vector<std::vector<Action>>& order, const PipelineSizes& sizes,
      const std::vector<std::vector<ChunkCost>>& costs)
      : order_(order),
        sizes_(sizes),
        costs_(costs),
        places_(static_cast<size_t>(sizes.stages * sizes.chunks)),
        ends_(2 * places_ * static_cast<size_t>(sizes.microbatches), unknown),
        next_(order.size()),
        held_(order.size()),
        kept_(order.size()) {
    StageRun empty;
    empty.gradients_end.resize(static_cast<size_t>(sizes.chunks));
    result_.stages.resize(order.size(), empty);
  }

  PipelineRun run() {
    size_t left = 0;
    for (const auto& actions : order_) left += actions.size();
    while (left > 0) {
      size_t ran = 0;
      for (size_t stage = 0; stage < order_.size(); ++stage) ran += advance(stage);
      if (ran == 0) throw std::logic_error("[plan] a pipeline's order waits for itself");
      left -= ran;
    }
    return finish();
  }

 private:
  static constexpr double unknown = -1;

  // Of the forward pass, or of the gradient of the input.
  double& end_of(bool forward, size_t place, int64_t microbatch) {
    return ends_[(place * 2 + (forward ? 0 : 1)) * static_cast<size_t>(sizes_.microbatches) +
                 static_cast<size_t>(microbatch)];
  }
  size_t place_of(size_t stage, int64_t chunk) const { return static_cast<size_t>(chunk * sizes_.stages) + stage; }
  const ChunkCost& cost_at(size_t place) const { return costs_[place % order_.size()][place / order_.size()]; }

  // When what comes from another place is there; nothing where that has not run.
  std::optional<double> arrival(bool forward, size_t from, int64_t microbatch) {
    const double end = end_of(forward, from, microbatch);
    if (end == unknown) return std::nullopt;
    if (sizes_.stages == 1) return end;
    return end + (forward ? cost_at(from).message : cost_at(from).gradient_message);
  }

  // When an action's needs are met.
  std::optional<double> ready(size_t stage, const Action& a) {
    const size_t place = place_of(stage, a.chunk);
    if (a.pass == Pass::forward) return place == 0 ? 0.0 : arrival(true, place - 1, a.microbatch);
    const bool weights = a.pass == Pass::weight_gradient;
    if (end_of(!weights, place, a.microbatch) == unknown) return std::nullopt;
    if (weights || place + 1 == places_) return 0.0;  // the stage's own has run
    return arrival(false, place + 1, a.microbatch);
  }

  static double seconds_of(const Action& a, const ChunkCost& cost) {
    switch (a.pass) {
      case Pass::forward:
        return cost.forward;
      case Pass::backward:
        return cost.input_gradient + cost.weight_gradient;
      case Pass::input_gradient:
        return cost.input_gradient;
      case Pass::weight_gradient:
        break;
    }
    return cost.weight_gradient;
  }

  size_t advance(size_t stage) {
    size_t ran = 0;
    for (; next_[stage] < order_[stage].size(); ++next_[stage], ++ran) {
      const Action& action = order_[stage][next_[stage]];
      const std::optional<double> when = ready(stage, action);
      if (!when) break;
      take(stage, action, *when);
    }
    return ran;
  }

  void take(size_t stage, const Action& a, double when) {
    const size_t place = place_of(stage, a.chunk);
    const ChunkCost& cost = cost_at(place);
    StageRun& run = result_.stages[stage];
    const double seconds = seconds_of(a, cost);
    run.end = std::max(run.end, when) + seconds;
    run.busy += seconds;
    if (a.pass != Pass::weight_gradient) end_of(a.pass == Pass::forward, place, a.microbatch) = run.end;
    hold(stage, a, cost.kept);
    if (ends(a)) run.gradients_end[static_cast<size_t>(a.chunk)] = run.end;
  }

  // Whether nothing of the microbatch is needed any more.
  static bool ends(const Action& a) { return a.pass == Pass::backward || a.pass == Pass::weight_gradient; }

  void hold(size_t stage, const Action& a, double kept) {
    StageRun& run = result_.stages[stage];
    const int sign = a.pass == Pass::forward ? 1 : ends(a) ? -1 : 0;
    held_[stage] += sign;
    kept_[stage] += sign * kept;
    run.live = std::max(run.live, held_[stage]);
    run.kept = std::max(run.kept, kept_[stage]);
  }

  PipelineRun finish() {
    double busy = 0;
    for (const StageRun& stage : result_.stages) {
      result_.seconds = std::max(result_.seconds, stage.end);
      busy += stage.busy;
    }
    const double all = result_.seconds * static_cast<double>(result_.stages.size());
    result_.bubble = all > 0 ? 1 - busy / all : 0;
    return std::move(result_);
  }

  const std::vector<std::vector<Action>>& order_;
  const PipelineSizes& sizes_;
  const std::vector<std::vector<ChunkCost>>& costs_;
  size_t places_;
  std::vector<double> ends_;  // by place, pass and microbatch
  std::vector<size_t> next_;
  std::vector<int64_t> held_;
  std::vector<double> kept_;
  PipelineRun result_;
};

}  // namespace

PipelineRun run_pipeline(const std::vector<std::vector<Action>>& order, const PipelineSizes& sizes,
                         const std::vector<std::vector<ChunkCost>>& costs) {
  return Run(order, sizes, costs).run();
}

}  // namespace heddle::distributed
