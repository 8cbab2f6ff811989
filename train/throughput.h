// Throughput: where the time of a training loop goes, and what limits its speed.
//
// Purpose: the loop runs ahead of a busy device, so time that the loop waits for the loader says nothing about the
// device. DeviceWatch looks whether everything that was submitted is complete, before, while and after the loop waits,
// and adds up the time for which the device had nothing to do. Invariants: idle times are within a window of the
// trainer; planning and compiling of a step count as neither compute nor idle. A moment at which the device ran dry is
// known between two looks: the middle counts, so an idle time is off by at most half the time between them (0.1 ms
// while workers make the batch, half an example without workers). Errors: DeviceLost. Thread safety: none.
#pragma once

#include <chrono>

#include "heddle/core/device/context.h"

namespace heddle::train {

// Seconds within windows of the trainer. Fetching and preprocessing pass in the loader's workers, beside the rest and
// several at once.
struct Throughput {
  double fetch = 0;       // datasets, with the transforms that are part of them
  double preprocess = 0;  // transforms and collate of the loader
  double copy = 0;        // uploads, on the host
  double compute = 0;     // the device had work
  double idle = 0;        // the device had none
  double starved = 0;     // the part of `idle` for which the loop waited for a batch or uploaded it

  // Of the time for which the device could have computed; 0 before anything was.
  double idle_share() const;
  // "compute" where the device idles for less than a tenth of the time; "fetch", "preprocess" or "copy", whichever is
  // dearest, where it mostly idles for data; else "host": recording and submitting steps.
  const char* bottleneck() const;
};

class DeviceWatch {
 public:
  using Clock = std::chrono::steady_clock;
  explicit DeviceWatch(DeviceContext& device) : device_(device), compiled_(device.counters().steps_compiled) {}

  // A window begins, with an idle device, and ends: what follows is waiting for the device to finish.
  void open();
  void close();
  // Whether the device has run dry; costs a query of the driver.
  void look();
  // How long the device has been idle since `start` without an end yet.
  double dry_since(Clock::time_point start) const;
  // Around each submission.
  void submitting();
  void submitted();

  double idle() const { return idle_; }
  double compiling() const { return compiling_; }

 private:
  DeviceContext& device_;
  uint64_t compiled_;
  Event last_;
  bool dry_ = true;
  Clock::time_point looked_ = Clock::now(), dry_from_ = looked_, submitting_ = looked_;
  double idle_ = 0, compiling_ = 0;
};

}  // namespace heddle::train
