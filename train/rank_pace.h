// RankPace: how long each rank's own part of an update takes, and which ranks hold up the others.
//
// Purpose: ranks wait for the slowest of them, so that all seem equally slow; what tells them apart is the time that a
// rank does not wait. Invariants: every rank opens and closes the same windows of updates, and gets the same answers.
// The first window, in which kernels are compiled, does not count. Errors: those of distributed/errors.h. Thread
// safety: none.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include "heddle/train/callback.h"
#include "heddle/train/replicas.h"

namespace heddle::train {

class RankPace {
 public:
  explicit RankPace(Replicas& replicas) : replicas_(replicas) {}

  // So many updates of a run have windows of a few updates each, so that a rank is named within them.
  static constexpr int64_t early_updates = 20;

  void open();
  // A window of so many updates is over. Gives ranks that took half as long again as the median of the others in this
  // window and in the one before, each once in a run.
  std::vector<Straggler> close(int64_t updates);

  // The next window compiles kernels once more.
  void begin_again();
  // Whether the last window does.
  bool counts() const { return windows_ > 1; }

  // Of an update of the last window, by rank; none before the second window, and of one process.
  const std::vector<double>& seconds() const { return seconds_; }

 private:
  Replicas& replicas_;
  std::chrono::steady_clock::time_point start_;
  double waited_ = 0;
  int64_t windows_ = 0;
  std::vector<double> seconds_;
  std::vector<int> slow_;    // windows in a row, by rank
  std::vector<bool> named_;  // by rank
};

}  // namespace heddle::train
