// UpdateWindow: the updates between two looks at the device, and the speed that they had.
//
// Invariants: a window holds what its records take that the device does not know: rates and places of the batches.
// Thread safety: none.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "heddle/core/device/context.h"
#include "heddle/data/loader.h"
#include "heddle/train/callback.h"
#include "heddle/train/config.h"
#include "heddle/train/step.h"
#include "heddle/train/throughput.h"

namespace heddle::train {

// "the loss became nan"; nan whatever its sign.
std::string became(const char* what, double value);

class UpdateWindow {
 public:
  UpdateWindow(DeviceContext& device, DeviceWatch& watch) : device_(device), watch_(watch) {}

  // A run begins; its records count seconds from here.
  void start_run() { run_start_ = Clock::now(); }
  double run_seconds() const;

  void open();
  // An update by the batch of that position was submitted.
  void add(double rate, const data::Loader::Position& batch);
  // Whether it has lasted long enough, with so many updates; an early one is shorter.
  bool is_full(int64_t updates, bool early = false) const;

  // What was seen of a window's updates: all up to the first that has a number which is not finite, and what that is.
  struct Seen {
    std::vector<StepRecord> records;
    std::string bad;
    data::Loader::Position bad_batch;
  };
  // The device has finished; `step` updates were done in all.
  Seen close(const TrainingStep::Results& results, const Config& config, int64_t step, int64_t steps_per_epoch);

  double training_seconds() const { return training_seconds_; }
  double kernels_per_step() const { return kernels_per_step_; }
  double last_loss() const { return last_loss_; }
  // One per closed window; the first, which compiles, only while it is the only one.
  const std::vector<double>& step_seconds() const { return step_seconds_; }

 private:
  using Clock = std::chrono::steady_clock;
  void measure(int64_t updates);

  DeviceContext& device_;
  DeviceWatch& watch_;
  std::vector<double> rates_;
  std::vector<data::Loader::Position> batches_;
  Clock::time_point start_, run_start_;
  DeviceCounters counters_;
  std::vector<double> step_seconds_;
  int64_t windows_ = 0;
  double kernels_per_step_ = 0, training_seconds_ = 0, last_loss_ = 0;
};

}  // namespace heddle::train
