// Time that this process had a processor, whatever else the machine does: for tests of what grows too fast.
// Thread safety: pure; threads of the process are counted together.
#pragma once

#include <ctime>

namespace heddle::test {

// Seconds since `start`, which std::clock() gave.
inline double processor_seconds_since(std::clock_t start) {
  return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
}

}  // namespace heddle::test
