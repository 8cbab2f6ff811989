#include "heddle/train/throughput.h"

#include <algorithm>

#include "heddle/core/device/context.h"

namespace heddle::train {
namespace {

double seconds(DeviceWatch::Clock::duration time) { return std::chrono::duration<double>(time).count(); }

}  // namespace

double Throughput::idle_share() const { return idle > 0 ? idle / (idle + compute) : 0; }

const char* Throughput::bottleneck() const {
  if (idle_share() < 0.1) return "compute";
  if (starved < 0.5 * idle) return "host";
  if (copy > fetch && copy > preprocess) return "copy";
  return preprocess > fetch ? "preprocess" : "fetch";
}

void DeviceWatch::open() {
  dry_ = true;
  dry_from_ = looked_ = Clock::now();
}

void DeviceWatch::close() {
  look();
  if (dry_) idle_ += seconds(Clock::now() - dry_from_);
}

void DeviceWatch::look() {
  if (dry_) return;
  dry_ = last_.done();
  const Clock::time_point now = Clock::now();
  if (dry_) dry_from_ = looked_ + (now - looked_) / 2;
  looked_ = now;
}

double DeviceWatch::dry_since(Clock::time_point start) const {
  return dry_ ? seconds(Clock::now() - std::max(start, dry_from_)) : 0;
}

void DeviceWatch::submitting() {
  look();
  submitting_ = Clock::now();
}

// A submission is the last that the host does for a step; a device that is not asynchronous computes meanwhile.
void DeviceWatch::submitted() {
  const Clock::time_point now = Clock::now();
  const uint64_t compiled = device_.counters().steps_compiled;
  const bool planned = compiled != compiled_;
  if (planned) compiling_ += seconds(now - submitting_);
  if (dry_) idle_ += seconds((device_.caps().async && !planned ? now : submitting_) - dry_from_);
  compiled_ = compiled;
  last_ = device_.event();
  dry_ = false;
  looked_ = now;
}

}  // namespace heddle::train
