// Barriers of a block by number, of which some lanes take part.
#include "tests/ptx/block.h"

namespace heddle::ptx {

// bar.sync and bar.arrive with a count of lanes (Op::immediate); Op::count is 1 where nobody waits. For the records of
// shared memory a barrier that is complete orders all lanes, also those that were not there.
void Block::numbered_barrier(const Op& op) {
  const auto* numbers = reg<uint32_t>(op, 0);
  const Active here = active;
  uint32_t touched = 0;
  for (uint32_t k = 0; k < here.count; ++k) {
    const uint32_t lane = here.list[k];
    const uint32_t number = numbers[lane];
    if (number == 0 || number >= arrived_.size())
      throw LaneFault{FaultKind::barrier, lane, "there is no barrier " + std::to_string(number) + " of some lanes"};
    if (arrived_[number] >= op.immediate)
      throw LaneFault{FaultKind::barrier, lane,
                      "more lanes come to barrier " + std::to_string(number) + " than it has"};
    ++arrived_[number];
    touched |= 1u << number;
    waits_for_[lane] = op.count == 1 ? 0 : static_cast<uint8_t>(number);
    at_of_[lane] = op.count == 1 ? at_ + 1 : at_;
    state_[lane] = op.count == 1 ? State::runs : State::at_numbered;
  }
  for (uint32_t number = 1; number < arrived_.size(); ++number) {
    if (!(touched >> number & 1) || arrived_[number] != op.immediate) continue;
    arrived_[number] = 0;
    shared.block_barrier();
    for (uint32_t lane = 0; lane < lanes_; ++lane) {
      if (state_[lane] != State::at_numbered || waits_for_[lane] != number) continue;
      state_[lane] = State::runs;
      ++at_of_[lane];
    }
  }
  select();
}

}  // namespace heddle::ptx
