#include "checks/device_checks.h"

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "checks/op_cases.h"
#include "heddle/core/base/error.h"
#include "heddle/core/functions/shape/index_check.h"

namespace heddle::checks {
namespace {

constexpr uint64_t seed = 20261123;

std::string against_reference(const OpCase& c, DeviceContext& context) {
  DeviceContext& reference = device("reference:0");
  const Tensor expected = c.run(reference, make_inputs(c, reference, seed));
  const Tensor found = c.run(context, make_inputs(c, context, seed));
  return difference(found.to_doubles(), expected.to_doubles(), tolerance(c.op, found.dtype()));
}

}  // namespace

void add_function_checks(std::vector<DeviceCheck>& checks) {
  std::map<std::string, size_t> seen;
  std::vector<std::pair<size_t, DeviceCheck>> rounds;
  for (OpCase& c : op_cases()) {
    const size_t round = seen[c.op]++;
    const auto shared = std::make_shared<const OpCase>(std::move(c));
    rounds.emplace_back(round,
                        DeviceCheck{"functions", shared->op, shared->name,
                                    [shared](const Caps& caps) { return unsupported_reason(*shared, caps); },
                                    [shared](DeviceContext& context) { return against_reference(*shared, context); }});
  }
  std::stable_sort(rounds.begin(), rounds.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  for (auto& [round, check] : rounds) checks.push_back(std::move(check));
}

std::vector<DeviceCheck> device_checks() {
  std::vector<DeviceCheck> checks;
  add_memory_checks(checks);
  add_training_checks(checks);
  add_function_checks(checks);
  return checks;
}

std::string_view name_of(CheckResult::Status status) {
  switch (status) {
    case CheckResult::Status::passed:
      return "passed";
    case CheckResult::Status::lacking:
      return "lacking";
    case CheckResult::Status::wrong:
      return "wrong";
    case CheckResult::Status::failed:
      return "failed";
  }
  return "?";
}

CheckResult run_check(const DeviceCheck& check, DeviceContext& device) {
  using Status = CheckResult::Status;
  const IndexGuardScope unguarded(IndexGuard::off);  // cases try indices out of range: docs/numbers.md promises values
  if (std::string lacks = check.lacks ? check.lacks(device.caps()) : ""; !lacks.empty())
    return {Status::lacking, std::move(lacks)};
  try {
    std::string wrong = check.run(device);
    return {wrong.empty() ? Status::passed : Status::wrong, std::move(wrong)};
  } catch (const DeviceLost&) {
    throw;
  } catch (const Error& error) {
    return {Status::failed, error.what()};
  }
}

}  // namespace heddle::checks
