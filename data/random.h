// Random numbers of the data pipeline: each example has a stream of its own.
//
// Invariants: the numbers depend only on (seed, epoch, index), so augmentation is the same whichever worker makes the
// example, on every platform. Thread safety: values; one thread draws from one stream.
#pragma once

#include <array>
#include <cstdint>

#include "heddle/core/graph/philox.h"

namespace heddle::data {

class Random {
 public:
  Random(uint64_t seed, uint64_t epoch, uint64_t index)
      : key_{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)},
        counter_{0, static_cast<uint32_t>(index),
                 static_cast<uint32_t>(index >> 32) ^ static_cast<uint32_t>(epoch >> 32) << 16,
                 static_cast<uint32_t>(epoch) ^ stream} {}

  uint32_t bits() {
    if (left_ == 0) {
      words_ = philox(counter_, key_);
      ++counter_[0];
      left_ = 4;
    }
    return words_[4 - left_--];
  }
  // In [0, 1).
  float uniform() { return static_cast<float>(bits() >> 8) * 0x1p-24f; }
  float uniform(float low, float high) { return low + (high - low) * uniform(); }
  // In [0, below); below at most 2^32.
  int64_t integer(int64_t below) { return static_cast<int64_t>(uint64_t{bits()} * static_cast<uint64_t>(below) >> 32); }
  bool chance(double probability) { return uniform() < probability; }

 private:
  static constexpr uint32_t stream = 0x4558'414d;  // apart from other uses of the same seed
  std::array<uint32_t, 2> key_;
  std::array<uint32_t, 4> counter_, words_{};
  int left_ = 0;
};

}  // namespace heddle::data
