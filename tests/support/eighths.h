// Numbers of tests that compare sums of products exactly.
//
// Thread safety: pure.
#pragma once

#include <cstdint>
#include <vector>

namespace heddle::tests {

// Multiples of 1/8 of at most 1: sums of up to 2^18 of their products are exact in f32.
inline std::vector<float> eighths(int64_t count, uint32_t seed) {
  std::vector<float> x(static_cast<size_t>(count));
  for (float& v : x) {
    seed = seed * 1664525u + 1013904223u;
    v = static_cast<float>(seed >> 28) / 8.0f - 1.0f;
  }
  return x;
}

}  // namespace heddle::tests
