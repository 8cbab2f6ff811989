// Checks of a device: does what its driver computes agree with the reference device?
//
// Purpose: what `heddle doctor` runs on a card that nobody here has seen. Parts: `memory` (bytes go up and come back,
// also through views), `training` (gradients and losses of small networks), `functions` (the table of op_cases.h).
// Invariants: the order is that of a hurried doctor: memory and training first, then the first case of every function,
// the second of every function, and so on, so that a list that is cut short has seen everything once. Expected values
// are the reference device's (docs/numbers.md). Thread safety: none.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "heddle/core/device/context.h"

namespace heddle::checks {

struct DeviceCheck {
  std::string part;           // "memory", "training", "functions"
  std::string function = {};  // of the last part: "exp"
  std::string name;           // unique within its part: "exp f32 (129)"
  // What a device lacks for it ("no f64"), empty text: nothing. Not set: no device lacks anything.
  std::function<std::string(const Caps& caps)> lacks = {};
  // What is wrong ("3 of 129 elements differ; ..."); empty: nothing. Throws what the device throws.
  std::function<std::string(DeviceContext& device)> run;
};
std::vector<DeviceCheck> device_checks();

struct CheckResult {
  enum class Status : uint8_t { passed, lacking, wrong, failed };  // failed: the device threw
  Status status = Status::passed;
  std::string what;  // empty where it passed
};
std::string_view name_of(CheckResult::Status status);
// Runs it. Throws nothing but DeviceLost: after that no other check of this context says anything.
CheckResult run_check(const DeviceCheck& check, DeviceContext& device);

// ---- device_checks_*.cpp
void add_memory_checks(std::vector<DeviceCheck>& checks);
void add_training_checks(std::vector<DeviceCheck>& checks);
void add_function_checks(std::vector<DeviceCheck>& checks);

}  // namespace heddle::checks
