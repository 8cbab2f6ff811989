// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011), the counter-based generator of
// Heddle.
//
// Purpose: one definition of the random bits, used by the reference and stated for the dialect. Element n of a
// random_uniform node with key words (k0, k1, c0, c1) is word n % 4 of philox(counter = (n / 4 low, n / 4 high, c0,
// c1), key = (k0, k1)), as (word >> 8) * 2^-24: exact in f32, in [0, 1), equal on every device. Thread safety: pure
// functions.
#pragma once

#include <array>
#include <cstdint>

namespace heddle {

inline std::array<uint32_t, 4> philox(std::array<uint32_t, 4> c, std::array<uint32_t, 2> k) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = 0xD2511F53ull * c[0];
    const uint64_t p1 = 0xCD9E8D57ull * c[2];
    c = {static_cast<uint32_t>(p1 >> 32) ^ c[1] ^ k[0], static_cast<uint32_t>(p1),
         static_cast<uint32_t>(p0 >> 32) ^ c[3] ^ k[1], static_cast<uint32_t>(p0)};
    k[0] += 0x9E3779B9u;
    k[1] += 0xBB67AE85u;
  }
  return c;
}

// Element n for key words {k0, k1, c0, c1}.
inline float philox_uniform(const std::array<uint32_t, 4>& key, uint64_t n) {
  const auto bits =
      philox({static_cast<uint32_t>(n / 4), static_cast<uint32_t>(n / 4 >> 32), key[2], key[3]}, {key[0], key[1]});
  return static_cast<float>(bits[n % 4] >> 8) * 0x1p-24f;
}

}  // namespace heddle
