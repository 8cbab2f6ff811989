// How many op cases the tests run: HEDDLE_TEST_FULL=1 asks for all. Thread safety: reads the environment.
#pragma once

#include <cstdlib>
#include <string_view>

#include "checks/op_cases.h"

namespace heddle::tests {

inline checks::Coverage coverage_from_environment() {
  const char* full = std::getenv("HEDDLE_TEST_FULL");
  return full && *full && std::string_view(full) != "0" ? checks::Coverage::full : checks::Coverage::brief;
}

}  // namespace heddle::tests
