// Suites: named lists of cases, and what they should reach (the Shows of the project's issues).
//
// Thread safety: pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "bench/run.h"

namespace heddle::bench {

// One line of a suite's table: cases, what is computed of their rows, and the least value.
struct Goal {
  enum class Value : uint8_t {
    peer_ratio,  // seconds of the peer / Heddle's
    fraction,    // of the case's bound
    speedup,     // seconds of the last case / seconds of the first: fused over unfused
    launches,    // at most
    memory       // extra bytes, GiB, at most
  };
  enum class Over : uint8_t { geometric_mean, worst };
  std::string what;
  std::string device;                                      // "opencl", "vulkan": its backend; empty: any
  std::vector<std::pair<std::string, std::string>> cases;  // family, case
  Value value = Value::peer_ratio;
  Over over = Over::geometric_mean;
  double limit = 0;
  bool at_most() const { return value == Value::launches || value == Value::memory; }
};

struct Verdict {
  const Goal* goal = nullptr;
  double value = 0;
  bool met = false;
  int rows = 0;  // that were there
};

std::vector<std::string> suite_names();
// ValueError "[bench] unknown suite 'x'; known: ...".
std::vector<Case> suite_cases(std::string_view suite);
// False for cases that a suite does not ask of this device: those with goals on another one only (unless `all`, for
// tuning), and those that would take it minutes (more than 3 GFLOP on a CPU driver of Vulkan).
bool suits(std::string_view suite, const Case& c, const DeviceContext& device, bool all);
// The goals that these rows answer.
std::vector<Verdict> judge(std::string_view suite, const std::vector<Row>& rows);

}  // namespace heddle::bench
