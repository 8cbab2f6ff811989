// How much of the tables of cases the tests run: HEDDLE_TEST_FULL=1 asks for all, on every device.
//
// Thread safety: reads the environment and the registry.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "checks/op_cases.h"
#include "heddle/core/device/registry.h"

namespace heddle::tests {

inline checks::Coverage coverage_from_environment() {
  const char* full = std::getenv("HEDDLE_TEST_FULL");
  return full && *full && std::string_view(full) != "0" ? checks::Coverage::full : checks::Coverage::brief;
}

inline std::vector<std::string> cpu_drivers() {
  std::vector<std::string> ids;
  for (const DeviceInfo& info : Registry::instance().devices()) {
    if (info.available && info.caps.target != Target::none && info.caps.device_class == DeviceClass::cpu)
      ids.push_back(info.id);
  }
  return ids;
}

// Whether a device takes case `number` of a function. The CPU drivers of a machine share a function's cases out:
// their kernels are made of the same bodies, and a case costs half a second of compilation there. Every case is some
// driver's, the first one each one's; GPUs and the reference device take all, and so does everyone in the full
// coverage.
inline bool takes_case(const std::string& id, std::string_view function, size_t number) {
  static const std::vector<std::string> drivers = cpu_drivers();
  const auto at = std::find(drivers.begin(), drivers.end(), id);
  if (number == 0 || at == drivers.end() || coverage_from_environment() == checks::Coverage::full) return true;
  const size_t turn = number + function.size();  // the same number is not always the same driver's
  return turn % drivers.size() == static_cast<size_t>(at - drivers.begin());
}

}  // namespace heddle::tests
