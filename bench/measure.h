// Timing of calls, interleaved.
//
// Invariants: see bench/bench.h for the method. Thread safety: none.
#pragma once

#include <functional>
#include <vector>

namespace heddle::bench {

// Linear between neighbours; 0 for no values. q in [0, 1].
double quantile(std::vector<double> values, double q);
inline double median(std::vector<double> values) { return quantile(std::move(values), 0.5); }
double geometric_mean(const std::vector<double>& values);

// One side of a comparison: `call` enqueues or runs one call, `finish` returns when all calls have finished.
struct Side {
  std::function<void()> call;
  std::function<void()> finish;
  double settle_seconds = 4e-3;  // rest after its turn: until its threads no longer spin
};

struct Timing {
  int repetitions = 15;
  double repetition_seconds = 8e-3;  // a repetition repeats the call until about then
  int warm_up = 3;
  double most_seconds = 0;  // of one case: then it ends after three repetitions or more; 0: no limit
};

// Seconds of one call, per repetition, for each side.
std::vector<std::vector<double>> measure(const std::vector<Side>& sides, const Timing& timing);
// Best of a few calls: for a quick choice between candidates.
double quick_seconds(const Side& side, int calls);

// A figure with its spread.
struct Spread {
  double median = 0, low = 0, high = 0;  // quartiles
};
Spread spread(const std::vector<double>& values);
// Of values[i] / base[i].
Spread ratio_spread(const std::vector<double>& values, const std::vector<double>& base);

}  // namespace heddle::bench
