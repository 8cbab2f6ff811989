// WorldOptions: what a world and its communication thread are told; WorldLife: what a world is between two losses of
// ranks. Thread safety: plain values.
#pragma once

#include <cstddef>
#include <cstdint>

namespace heddle::distributed {

struct WorldOptions {
  double limit_seconds = 600;              // that a call may be without any progress before it fails
  size_t piece_bytes = size_t{256} << 10;  // of values that travel at a time
  // The same where ranks of a call are on several hosts: below the 64 KiB from which MPI asks a receiver over TCP
  // before it sends the rest. Each question waits behind what is on its way to the sender: a link stood still almost
  // half of the time. Through memory many small pieces are the slower ones.
  size_t far_piece_bytes = size_t{63} << 10;
  bool survives = false;  // goes on without ranks that were lost (World::renew())
};

struct WorldLife {
  uint64_t generation = 0;  // how often it was mended
  int rank = 0, size = 1;
};

}  // namespace heddle::distributed
