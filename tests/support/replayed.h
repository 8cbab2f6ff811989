// Work that is replayed beside the same work computed at once. Thread safety: as Replay.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "heddle/core/run/replay.h"
#include "heddle/heddle.h"

namespace heddle::tests {

// Expects the bits of `work` computed at once of a capture and of a replay. Gives the launches of a replay.
inline size_t expect_replays(const std::function<Tensor()>& work) {
  const std::vector<uint8_t> at_once = work().to_bytes();
  Tensor result;
  const Replay replay = Replay::capture([&] {
    result = work();
    eval({result});
  });
  EXPECT_EQ(result.to_bytes(), at_once);
  replay.run();
  EXPECT_EQ(result.to_bytes(), at_once);
  return replay.kernels();
}

}  // namespace heddle::tests
