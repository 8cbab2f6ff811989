// Learning rates over a run: functions of the update, which compose.
//
//   optimizer.set_schedule(schedule::warmup(100, schedule::cosine(3e-4, 4900, 3e-5)));
//
// Invariants: updates count from 1, as Optimizer::set_schedule() does, so the first update of a schedule has what
// PyTorch's scheduler of that kind has before its first step(). A schedule that has ended stays where it is. Errors:
// ValueError when one is made from what cannot be meant. Thread safety: schedules are pure; Plateau has none.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "heddle/core/base/callable.h"

namespace heddle::nn {

using Schedule = Callable<double(int64_t update)>;

namespace schedule {

Schedule constant(double lr);
// lr * gamma^floor((n - 1) / every).
Schedule step(double lr, int64_t every, double gamma = 0.1);
// lr * gamma^k after k of the milestones, in updates, ascending.
Schedule multi_step(double lr, std::vector<int64_t> milestones, double gamma = 0.1);
// lr * gamma^(n - 1).
Schedule exponential(double lr, double gamma);
// From lr * from to lr * to over `updates`.
Schedule linear(double lr, int64_t updates, double from, double to = 1);
// lr * (1 - (n - 1) / updates)^power.
Schedule polynomial(double lr, int64_t updates, double power = 1);
// From lr to `least` along half a cosine over `updates`: Loshchilov and Hutter 2017, "SGDR: Stochastic Gradient Descent
// with Warm Restarts", equation 5.
Schedule cosine(double lr, int64_t updates, double least = 0);
// The same again and again; each cycle is `growth` times as long as the one before.
Schedule cosine_restarts(double lr, int64_t first_cycle, int64_t growth = 1, double least = 0);

struct OneCycle {
  double rising = 0.3;      // share of the updates
  double start = 1.0 / 25;  // of the highest rate
  double end = 1e-4;        // of the start
  bool cosine = true;       // else linear
};
// Up to `highest` and down again: Smith and Topin 2018, "Super-Convergence".
Schedule one_cycle(double highest, int64_t updates, const OneCycle& options = {});
// Between two rates, linearly: `up` updates up, `down` down (0: as many as up). Each cycle's height is `shrink` times
// that of the one before. Smith 2017, "Cyclical Learning Rates for Training Neural Networks".
Schedule cyclical(double lowest, double highest, int64_t up, int64_t down = 0, double shrink = 1);

// `then`, from its own first update on, behind a line over `updates` from `from` times its first rate to the whole of
// it.
Schedule warmup(int64_t updates, Schedule then, double from = 0);
// One after the other: each part for its number of updates, counted from 1 in each; the last one goes on.
Schedule sequence(std::vector<std::pair<Schedule, int64_t>> parts);
// The product, for factors over a schedule.
Schedule product(Schedule a, Schedule b);

}  // namespace schedule

struct PlateauOptions {
  bool larger_is_better = false;
  double factor = 0.1;
  int64_t patience = 10;    // observations without a better one that are let pass
  double threshold = 1e-4;  // what counts as better, relative to the best
  int64_t cooldown = 0;     // observations after a cut during which nothing is counted
  double least = 0;
};

// Cuts the rate where a metric no longer improves: observe() after each validation gives the rate to set.
class Plateau {
 public:
  explicit Plateau(double lr, const PlateauOptions& options = {});
  double observe(double metric);
  double lr() const { return lr_; }

  // For checkpoints.
  struct State {
    double lr = 0, best = 0;
    int64_t bad = 0, cooling = 0;
    bool operator==(const State&) const = default;
  };
  State state() const { return {lr_, best_, bad_, cooling_}; }
  void set_state(const State& state);

 private:
  PlateauOptions options_;
  double lr_, best_;
  int64_t bad_ = 0, cooling_ = 0;
};

}  // namespace heddle::nn
