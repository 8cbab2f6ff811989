// The two ends of the tuner's protocol: lines of JSON on the worker's standard input and output.
//
// {"open": {"family", "case", "dtype"}} -> {"uses": [{"key", "fallback"}], "default_seconds"}
// {"trial": {"key", "tunables", "careful"}} -> {"status", "ratio", "seconds", "default_seconds", "what"}
// A fault of the request itself: {"error": text, "user": whether it is the user's mistake}. Thread safety: none.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bench/bench.h"
#include "bench/search.h"
#include "heddle/core/tiles/tuning.h"
#include "tools/cli.h"
#include "tools/worker_process.h"

namespace heddle::tools {

// Answers requests until standard input ends.
void run_tune_worker(const std::string& device);

// The parent's side; starts the process when it is first needed, and again after it was lost.
class TuneWorker {
 public:
  struct Limits {
    double open_seconds = 120;  // build and check a case
    double trial_seconds = 8;
  };
  TuneWorker(std::string device, Limits limits, bool (*interrupted)())
      : device_(std::move(device)), limits_(limits), interrupted_(interrupted) {}

  // Throws what the case is refused with (ValueError, DeviceError).
  std::vector<TuningUse> open(const bench::Case& c);
  // Of the case that is open.
  bench::Trial trial(const TuningKey& key, const Bindings& values, bool careful);

 private:
  Json ask(const Json& request, double seconds, WorkerProcess::Answer& how);
  Json open_request() const;
  Json reopen(WorkerProcess::Answer& how);

  std::string device_;
  Limits limits_;
  bool (*interrupted_)();
  std::unique_ptr<WorkerProcess> process_;
  bench::Case case_;
};

Json json_of(const TuningKey& key);
Json json_of(const Bindings& values);

}  // namespace heddle::tools
