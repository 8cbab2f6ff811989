// Part of every group: in the full coverage PoCL and lavapipe optimise as they do for users, which `ctest` spares them
// (tests/CMakeLists.txt).
#include <cstdlib>

#include "tests/support/coverage.h"

namespace {

[[gnu::constructor(200)]] void let_drivers_optimise() {
  if (heddle::tests::coverage_from_environment() != heddle::checks::Coverage::full) return;
  for (const char* variable : {"POCL_EXTRA_BUILD_FLAGS", "GALLIVM_PERF", "LP_NATIVE_VECTOR_WIDTH"}) unsetenv(variable);
}

}  // namespace
