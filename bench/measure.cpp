#include "bench/measure.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>

namespace heddle::bench {
namespace {

using Clock = std::chrono::steady_clock;

double time_calls(const Side& side, int calls) {
  const auto start = Clock::now();
  for (int i = 0; i < calls; ++i) side.call();
  side.finish();
  return std::chrono::duration<double>(Clock::now() - start).count() / calls;
}

// Warms up and finds how many calls fill a repetition.
int calibrate(const Side& side, const Timing& timing) {
  double seconds = 0;
  double spent = 0;
  for (int i = 0; i < timing.warm_up && (timing.most_seconds <= 0 || spent <= timing.most_seconds); ++i)
    spent += seconds = time_calls(side, 1);
  return std::clamp(static_cast<int>(std::ceil(timing.repetition_seconds / std::max(seconds, 1e-7))), 1, 5000);
}

}  // namespace

double quantile(std::vector<double> values, double q) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const double at = q * static_cast<double>(values.size() - 1);
  const size_t below = static_cast<size_t>(at);
  const size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (at - static_cast<double>(below)) * (values[above] - values[below]);
}

double geometric_mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double v : values) sum += std::log(v);
  return values.empty() ? 0 : std::exp(sum / static_cast<double>(values.size()));
}

std::vector<std::vector<double>> measure(const std::vector<Side>& sides, const Timing& timing) {
  std::vector<int> calls;
  for (const Side& side : sides) {
    calls.push_back(calibrate(side, timing));
    std::this_thread::sleep_for(std::chrono::duration<double>(side.settle_seconds));
  }
  std::vector<std::vector<double>> seconds(sides.size());
  constexpr int least_repetitions = 3;
  const auto start = Clock::now();
  for (int r = 0; r < timing.repetitions; ++r) {
    const double spent = std::chrono::duration<double>(Clock::now() - start).count();
    if (timing.most_seconds > 0 && r >= least_repetitions && spent > timing.most_seconds) break;
    for (size_t turn = 0; turn < sides.size(); ++turn) {
      const size_t s = (turn + static_cast<size_t>(r)) % sides.size();  // nobody always goes first
      if (calls[s] > 1) time_calls(sides[s], 1);                        // wakes the thread pool
      seconds[s].push_back(time_calls(sides[s], calls[s]));
      std::this_thread::sleep_for(std::chrono::duration<double>(sides[s].settle_seconds));
    }
  }
  return seconds;
}

double quick_seconds(const Side& side, int calls) {
  time_calls(side, 1);
  double best = time_calls(side, 1);
  for (int i = 1; i < calls; ++i) best = std::min(best, time_calls(side, 1));
  return best;
}

Spread spread(const std::vector<double>& values) {
  return {median(values), quantile(values, 0.25), quantile(values, 0.75)};
}

Spread ratio_spread(const std::vector<double>& values, const std::vector<double>& base) {
  std::vector<double> ratios;
  for (size_t i = 0; i < std::min(values.size(), base.size()); ++i) ratios.push_back(values[i] / base[i]);
  return spread(ratios);
}

}  // namespace heddle::bench
