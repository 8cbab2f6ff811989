// Timing of calls, interleaved.
//
// Invariants: see bench/bench.h for the method. Thread safety: none.
#pragma once

#include <functional>
#include <vector>

namespace heddle::bench {

double median(std::vector<double> values);

// One side of a comparison: `call` enqueues or runs one call, `finish` returns when all calls have finished.
struct Side {
  std::function<void()> call;
  std::function<void()> finish;
};

// Seconds of one call, per repetition, for each side.
std::vector<std::vector<double>> measure(const std::vector<Side>& sides, int repetitions);

}  // namespace heddle::bench
