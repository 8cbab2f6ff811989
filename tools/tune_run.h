// The tuner's loop over devices, cases and keys; see tools/tune.cpp for its options.
//
// Invariants: an entry is only written when its values were faster than the default by more than 3 % in a measurement
// of its own, in turns with the default; otherwise the entry says that the default stays. The file is written after
// every key, so that little is lost; entries that were there and were not measured stay. Thread safety: none.
#pragma once

#include <string>
#include <vector>

#include "bench/bench.h"

namespace heddle::tools {

struct TuneRequest {
  std::vector<bench::Case> cases;
  std::vector<std::string> bodies;   // empty: all
  std::vector<std::string> devices;  // ids; "" is the default one
  std::string output;
  double budget = 60;     // seconds, for each device
  double time_limit = 8;  // seconds of a candidate
  bool dry_run = false;
  bool json = false;
};

// The exit code: 0, or 130 after Ctrl-C. Throws IoError when the output cannot be read or written before anything is
// measured.
int run_tuner(const TuneRequest& request);

}  // namespace heddle::tools
