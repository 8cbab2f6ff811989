// Numbers that look random and are the same everywhere. Thread safety: pure.
#pragma once

#include <cstdint>
#include <vector>

namespace heddle::test {

// Uniform in [-1, 1), floats, by a linear congruence.
inline std::vector<double> noise(int64_t count, uint64_t seed) {
  std::vector<double> made(static_cast<size_t>(count));
  uint64_t state = seed * 2654435761u + 12345;
  for (double& v : made) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    v = static_cast<double>(static_cast<float>(static_cast<double>(state >> 40) / (1 << 23) - 1));
  }
  return made;
}

}  // namespace heddle::test
