#include "checks/self_test.h"

#include <fmt/format.h>

#include <cstdlib>
#include <set>
#include <string>
#include <string_view>

#include "checks/device_checks.h"
#include "heddle/core/base/cache_dir.h"
#include "heddle/core/base/error.h"

namespace heddle::checks {
namespace {

constexpr std::string_view passed = "passed";
constexpr std::string_view functions[] = {"exp", "log", "tanh", "sin", "pow", "div", "sum", "softmax"};

bool left_out() {
  const char* value = std::getenv("HEDDLE_SELF_TEST");
  return value != nullptr && std::string_view(value) == "0";
}

// The first training check, and the first of each function.
std::vector<DeviceCheck> chosen() {
  std::set<std::string_view> missing(std::begin(functions), std::end(functions));
  missing.insert("training");
  std::vector<DeviceCheck> checks;
  for (DeviceCheck& check : device_checks()) {
    if (missing.erase(check.function.empty() ? check.part : check.function) != 0) checks.push_back(std::move(check));
  }
  return checks;
}

}  // namespace

void self_test(DeviceContext& device) {
  if (device.caps().target == Target::none || left_out()) return;
  const std::string identity = fmt::format("self-test 1 {} {}", device.info().backend, device.info().name);
  const DiskCache cache("drivers", device.caps().driver_hash);
  if (cache.load(identity)) return;
  for (const DeviceCheck& check : chosen()) {
    const CheckResult result = run_check(check, device);
    if (result.status == CheckResult::Status::passed || result.status == CheckResult::Status::lacking) continue;
    throw DeviceError(fmt::format(
        "[self-test] {} ({}, {}) is {}: {}: {}; `heddle doctor --device {}` says more, HEDDLE_SELF_TEST=0 trains on it "
        "all the same",
        device.id(), device.info().name, device.info().driver,
        result.status == CheckResult::Status::wrong ? "wrong" : "failing", check.name, result.what, device.id()));
  }
  cache.store(identity, passed.data(), passed.size(), device.id() + " passed the self-test");
}

}  // namespace heddle::checks
