#include "bench/measure.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>

namespace heddle::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double repetition_seconds = 8e-3;
constexpr std::chrono::milliseconds rest{4};

double time_calls(const Side& side, int calls) {
  const auto start = Clock::now();
  for (int i = 0; i < calls; ++i) side.call();
  side.finish();
  return std::chrono::duration<double>(Clock::now() - start).count() / calls;
}

// Warms up and finds how many calls fill a repetition.
int calibrate(const Side& side) {
  double seconds = 0;
  for (int i = 0; i < 3; ++i) seconds = time_calls(side, 1);
  return std::clamp(static_cast<int>(std::ceil(repetition_seconds / std::max(seconds, 1e-7))), 1, 2000);
}

}  // namespace

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

std::vector<std::vector<double>> measure(const std::vector<Side>& sides, int repetitions) {
  std::vector<int> calls;
  for (const Side& side : sides) calls.push_back(calibrate(side));
  std::vector<std::vector<double>> seconds(sides.size());
  for (int r = 0; r < repetitions; ++r) {
    for (size_t turn = 0; turn < sides.size(); ++turn) {
      const size_t s = (turn + static_cast<size_t>(r)) % sides.size();  // nobody always goes first
      std::this_thread::sleep_for(rest);
      time_calls(sides[s], 1);  // wakes the thread pool
      seconds[s].push_back(time_calls(sides[s], calls[s]));
    }
  }
  return seconds;
}

}  // namespace heddle::bench
