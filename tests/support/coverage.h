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
#include "tests/support/devices.h"

namespace heddle::tests {

inline checks::Coverage coverage_from_environment() {
  const char* full = std::getenv("HEDDLE_TEST_FULL");
  return full && *full && std::string_view(full) != "0" ? checks::Coverage::full : checks::Coverage::brief;
}

// Backends that run kernels on the CPU here.
inline std::vector<std::string> cpu_backends() {
  std::vector<std::string> found;
  for (const DeviceInfo& info : Registry::instance().devices()) {
    const bool known = std::find(found.begin(), found.end(), info.backend) != found.end();
    if (!known && test::runs_kernels(info) && info.caps.device_class == DeviceClass::cpu) found.push_back(info.backend);
  }
  return found;
}

// Whether a device takes case `number` of a function. The CPU drivers of a machine share cases out, by backend: their
// kernels are made of the same bodies, and a case costs half a second of compilation there. Number 0 is each one's,
// every other number one backend's, also where a test runs on the first device of each alone. GPUs and the reference
// device take all, and so does everyone in the full coverage.
inline bool takes_case(const std::string& id, std::string_view function, size_t number) {
  static const std::vector<std::string> backends = cpu_backends();
  const auto at = std::find(backends.begin(), backends.end(), id.substr(0, id.find(':')));
  if (number == 0 || at == backends.end() || coverage_from_environment() == checks::Coverage::full) return true;
  const size_t turn = number + function.size();  // the same number is not always the same backend's
  return turn % backends.size() == static_cast<size_t>(at - backends.begin());
}

}  // namespace heddle::tests
