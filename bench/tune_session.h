// TuneSession: one case on one device, its default, and trials of other values.
//
// Purpose: what runs inside the tuner's worker process (tools/tune_worker.cpp). Invariants: a trial's results are
// compared with those of the default, which were checked as a benchmark checks them; times of default and candidate are
// taken in turns. Faults of a candidate are Trials, not exceptions; what a candidate does to the process (crash, hang)
// is for the parent to see. Thread safety: none.
#pragma once

#include <memory>
#include <optional>

#include "bench/run.h"
#include "bench/search.h"
#include "heddle/core/tiles/tuning.h"

namespace heddle::bench {

// A fault on purpose, for tests of the tuner: candidates whose tunable has that value do this. From $HEDDLE_TUNE_FAULT,
// e.g. "MR=6:hang,NV=1:wrong".
struct Fault {
  std::string tunable;
  int64_t value = 0;
  std::string kind;  // wrong, compile, launch, hang or crash
};
// ValueError for another form.
std::vector<Fault> parse_faults(const std::string& text);

class TuneSession {
 public:
  TuneSession(const Case& c, DeviceContext& device, std::vector<Fault> faults);
  // The keys that the case asks tuned() for, with the defaults that it got.
  const std::vector<TuningUse>& uses() const { return uses_; }
  double default_seconds() const { return default_seconds_; }
  // `careful`: as many repetitions as a benchmark; else a few.
  Trial trial(const TuningKey& key, const Bindings& values, bool careful);

 private:
  void check(const Workload& workload, bool spoil) const;
  Trial measured(const TuningKey& key, const Bindings& values, bool careful);

  Case case_;
  DeviceContext& device_;
  std::vector<Fault> faults_;
  Workload workload_;
  std::vector<std::vector<float>> expected_;
  std::vector<TuningUse> uses_;
  Side default_side_;
  double default_seconds_ = 0;
};

}  // namespace heddle::bench
