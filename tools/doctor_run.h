// The two ends of `heddle doctor`: the process that decides and one that uses the device, which may die of it.
//
// Lines of JSON on the worker's standard input and output:
// {"open": true} -> {"device", "environment"}
// {"check": number in checks::device_checks()} -> {"status", "what"}
// {"figure": number of the figure} -> {"name", "value", "unit", "of_bound"}, or {"none": true} behind the last
// A fault of a request: {"error": text, "user": whether it is the user's mistake}. Invariants: a check that ends or
// stops the worker is a finding; the next one gets a new process. Thread safety: none.
#pragma once

#include <string>
#include <vector>

#include "tools/cli.h"

namespace heddle::tools {

struct DoctorRequest {
  std::string device;             // empty: the default one
  std::vector<std::string> only;  // parts ("training", "figures") and functions ("tanh"); empty: all
  double seconds = 60;            // after which no further check is begun; 0: all are
  double limit = 30;              // seconds after which a check counts as hung
  bool silent = false;            // no progress
};

struct PartCount {
  std::string part;
  int passed = 0, lacking = 0, bad = 0, left = 0;  // left: not run
};
struct Finding {
  std::string part, name;
  std::string status;  // "wrong", "failed", "crashed", "hung"
  std::string what;
};
struct Figure {
  std::string name, unit;
  double value = 0;
  double of_bound = 0;  // of a compute-bound case: value / the peak measured beside it; else 0
};

struct Diagnosis {
  std::string device;  // "vulkan:0"
  Json environment;    // train::environment_json
  std::vector<PartCount> parts;
  std::vector<std::pair<std::string, int>> lacking;  // what the device lacks ("no f64"), and how many checks need it
  std::vector<Finding> findings;
  std::vector<Figure> figures;
  double seconds = 0;
  bool gave_up = false;      // the device ended too many processes
  bool interrupted = false;  // by Ctrl-C or SIGTERM
};

// Throws what the device cannot be opened with; DeviceError where opening it ends or stops the process.
Diagnosis diagnose(const DoctorRequest& request);
// Answers requests until standard input ends.
void run_doctor_worker(const std::string& device);

}  // namespace heddle::tools
