// WorldOptions: what a world and its communication thread are told; WorldLife: what a world is between two losses of
// ranks. Thread safety: plain values.
#pragma once

#include <cstddef>
#include <cstdint>

namespace heddle::distributed {

struct WorldOptions {
  double limit_seconds = 600;              // that a call may be without any progress before it fails
  size_t piece_bytes = size_t{256} << 10;  // of values that travel at a time
  bool survives = false;                   // goes on without ranks that were lost (World::renew())
};

struct WorldLife {
  uint64_t generation = 0;  // how often it was mended
  int rank = 0, size = 1;
};

}  // namespace heddle::distributed
