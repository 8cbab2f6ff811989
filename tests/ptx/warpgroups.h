// Multiplications of warpgroups that are on their way (wgmma.mma_async).
//
// Purpose: what a block knows of them between their issue and the wait for their group. Shared memory that they read
// must not change; their sums are not in the registers, which hold NaN, until the wait. Invariants: sums of one list of
// registers are in one entry, whatever groups add to them. Thread safety: one block at a time.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

namespace heddle::ptx {

class Block;

// Bytes of shared memory.
struct SharedRange {
  uint32_t address, bytes;
};

class Warpgroups {
 public:
  void begin(uint32_t lanes) { of_.assign((lanes + 127) / 128, {}); }

  // wgmma.fence, by all lanes of the warpgroup: what they wrote to registers is seen by the multiplications.
  void fence(uint32_t warpgroup) { of_[warpgroup].fenced = true; }
  void commit(uint32_t warpgroup) { ++of_[warpgroup].committed; }
  // Until at most `left` groups are on their way: their reads are over, and sums that no later one adds to arrive.
  void wait(Block& block, uint32_t warpgroup, uint32_t left);

  // The sums that the registers at `places` (bytes per lane in front of each) hold, by place and lane, as the
  // multiplications before leave them. Throws LaneFault where they are not fenced or overlap with others on their way.
  std::vector<float>& sums(Block& block, uint32_t warpgroup, const uint32_t* places, uint32_t count);
  void reads(uint32_t warpgroup, SharedRange range) {
    of_[warpgroup].ranges.push_back({of_[warpgroup].committed, range});
  }

 private:
  struct Sums {
    uint32_t group = 0;
    std::vector<float> values;
  };
  struct Read {
    uint32_t group;
    SharedRange range;
  };
  struct State {
    bool fenced = false;
    uint32_t committed = 0;
    std::map<std::vector<uint32_t>, Sums> sums;
    std::vector<Read> ranges;
  };
  std::vector<State> of_;
};

}  // namespace heddle::ptx
