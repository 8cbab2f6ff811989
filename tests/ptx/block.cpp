#include "tests/ptx/block.h"

#include <algorithm>
#include <cstring>

namespace heddle::ptx {

void Block::begin(const Program& program, const LaunchShape& shape, const std::byte* parameters,
                  const GlobalMemory& memory, uint32_t number) {
  program_ = &program;
  launch_ = number;
  memory_ = &memory;
  parameters_ = parameters;
  shape_ = shape;
  range_ = {};
  lanes_ = shape.block[0] * shape.block[1] * shape.block[2];
  stride_ = (lanes_ + 31) / 32 * 32;
  registers_.resize(std::max<size_t>(registers_.size(), size_t{program.lane_bytes} * stride_));
  frame_stride_ = (program.frame_bytes + 15) / 16 * 16;
  frames_.resize(std::max<size_t>(frames_.size(), frame_stride_ * lanes_));
  at_of_.resize(lanes_);
  state_.resize(lanes_);
  list_.resize(lanes_);
  narrowed_.resize(lanes_);
  stack_.resize(size_t{lanes_} * deepest_call);
  depth_.resize(lanes_);
  committed_.resize(lanes_);
  fill(program);
}

void Block::fill(const Program& program) {
  for (const Constant& c : program.constants) {
    auto* at = at_place<std::byte>(c.place);
    for (uint32_t i = 0; i < lanes_; ++i) std::memcpy(at + size_t{i} * c.bytes, &c.bits, c.bytes);
  }
}

void Block::place_specials(uint32_t x, uint32_t y, uint32_t z) {
  const uint32_t block[3] = {x, y, z};
  for (const SpecialUse& use : program_->specials) {
    auto* to = at_place<uint32_t>(use.place);
    const auto which = static_cast<unsigned>(use.which);
    for (uint32_t i = 0; i < lanes_; ++i) {
      const uint32_t lane = i % 32, mask = 1u << lane;
      const uint32_t tid[3] = {i % shape_.block[0], i / shape_.block[0] % shape_.block[1],
                               i / shape_.block[0] / shape_.block[1]};
      if (which < 12) {
        const uint32_t* const from[] = {tid, shape_.block, block, shape_.grid};
        to[i] = from[which / 3][which % 3];
        continue;
      }
      const uint32_t values[] = {lane,     i / 32,          stride_ / 32,       mask,
                                 mask - 1, mask - 1 + mask, ~(mask - 1 + mask), ~(mask - 1)};
      to[i] = values[which - 12];
    }
  }
}

void Block::run(uint32_t x, uint32_t y, uint32_t z) {
  block_[0] = x, block_[1] = y, block_[2] = z;
  number_ = 1 + x + shape_.grid[0] * (y + shape_.grid[1] * z);
  place_specials(x, y, z);
  shared.begin(program_->shared_bytes + shape_.dynamic_shared, lanes_);
  warpgroups.begin(lanes_);
  copies_.clear();
  std::fill(committed_.begin(), committed_.end(), 0);
  std::fill(depth_.begin(), depth_.end(), uint8_t{0});
  std::fill(state_.begin(), state_.end(), State::runs);
  std::fill(at_of_.begin(), at_of_.end(), program_->entry);
  steps_ = 0;
  if (!select()) return;
  try {
    while (active.count > 0) step();
  } catch (const LaneFault& fault) {
    find_fault(fault, at_);
  }
}

// One instruction of the active lanes.
void Block::step() {
  if (at_ >= other_) {
    park(at_);
    select();
    if (active.count == 0) return;
  }
  if (++steps_ > most_steps)
    throw LaneFault{FaultKind::other, active.list[0], "more than " + std::to_string(most_steps) + " instructions"};
  const Op& op = program_->code[static_cast<size_t>(at_)];
  if (op.control == Control::none) {
    if (op.predicate < 0) {
      op.run(*this, op);
    } else {
      const Active whole = active;
      narrow(op);
      if (active.count > 0) op.run(*this, op);
      active = whole;
    }
    ++at_;
    return;
  }
  if (op.control == Control::branch) return branch(op);
  if (op.predicate >= 0) {  // those that do not take part go on
    const Active whole = active;
    narrow(op);
    if (active.count == 0) {
      active = whole;
      ++at_;
      return;
    }
    if (active.count < whole.count) {
      for (uint32_t k = 0; k < whole.count; ++k) at_of_[whole.list[k]] = at_ + 1;
      std::copy_n(active.list, active.count, list_.begin());
      active.list = list_.data();
      other_ = std::min(other_, at_ + 1);
    } else {
      active = whole;  // the narrowed list is the next instruction's
    }
  }
  switch (op.control) {
    case Control::exit:
      return leave();
    case Control::call:
      return call(op);
    case Control::ret:
      return give_back();
    case Control::barrier:
      return barrier();
    case Control::warp:
    case Control::warpgroup:
      return warp(op);
    default: {
      const auto* index = reg<uint32_t>(op, 0);
      const std::vector<int32_t>& table = program_->tables[static_cast<size_t>(op.target)];
      for (uint32_t k = 0; k < active.count; ++k) {
        const uint32_t lane = active.list[k];
        if (index[lane] >= table.size()) throw LaneFault{FaultKind::other, lane, "an index behind the branch table"};
        at_of_[lane] = table[index[lane]];
      }
      select();
    }
  }
}

namespace {

bool consecutive(const uint16_t* list, uint32_t count) {
  return count > 0 && static_cast<uint32_t>(list[count - 1] - list[0]) + 1 == count;
}

}  // namespace

// To the active lanes whose predicate holds.
void Block::narrow(const Op& op) {
  const auto* p = at_place<uint8_t>(static_cast<uint32_t>(op.predicate));
  uint32_t count = 0;
  for (uint32_t k = 0; k < active.count; ++k) {
    const uint16_t lane = active.list[k];
    narrowed_[count] = lane;
    count += (p[lane] != 0) != op.negated;
  }
  active = {narrowed_.data(), count, consecutive(narrowed_.data(), count)};
}

void Block::park(int32_t at) {
  for (uint32_t k = 0; k < active.count; ++k) at_of_[active.list[k]] = at;
}

// The lanes that are furthest behind become active. False when all are over.
bool Block::select() {
  for (;;) {
    int32_t lowest = none, second = none;
    for (uint32_t lane = 0; lane < lanes_; ++lane) {
      if (state_[lane] != State::runs || at_of_[lane] >= second) continue;
      if (at_of_[lane] < lowest) {
        second = lowest;
        lowest = at_of_[lane];
      } else if (at_of_[lane] > lowest) {
        second = at_of_[lane];
      }
    }
    uint32_t count = 0;
    for (uint32_t lane = 0; lane < lanes_; ++lane) {
      if (state_[lane] == State::runs && at_of_[lane] == lowest) list_[count++] = static_cast<uint16_t>(lane);
    }
    active = {list_.data(), count, consecutive(list_.data(), count)};
    at_ = lowest;
    other_ = second;
    if (count > 0) return true;
    const auto over = [](State s) { return s == State::over; };
    if (std::all_of(state_.begin(), state_.end(), over)) return false;
    release_or_fail();
  }
}

// Nobody runs: everybody stands at one barrier, or it is a fault.
void Block::release_or_fail() {
  const uint32_t first = static_cast<uint32_t>(
      std::find_if(state_.begin(), state_.end(), [](State s) { return s != State::over; }) - state_.begin());
  for (uint32_t lane = 0; lane < lanes_; ++lane) {
    if (state_[lane] == State::at_warp) stuck(lane, "");
    if (state_[lane] != State::at_barrier || at_of_[lane] != at_of_[first]) stuck(first, doing(lane));
  }
  shared.block_barrier();
  for (uint32_t lane = 0; lane < lanes_; ++lane) {
    state_[lane] = State::runs;
    ++at_of_[lane];
  }
}

void Block::branch(const Op& op) {
  if (op.predicate < 0) {
    at_ = op.target;
    return;
  }
  const auto* p = at_place<uint8_t>(static_cast<uint32_t>(op.predicate));
  uint32_t taken = 0;
  for (uint32_t k = 0; k < active.count; ++k) taken += (p[active.list[k]] != 0) != op.negated;
  if (taken == active.count) {
    at_ = op.target;
  } else if (taken == 0) {
    ++at_;
  } else {
    for (uint32_t k = 0; k < active.count; ++k) {
      const uint32_t lane = active.list[k];
      at_of_[lane] = (p[lane] != 0) != op.negated ? op.target : at_ + 1;
    }
    select();
  }
}

void Block::leave() {
  for (uint32_t k = 0; k < active.count; ++k) state_[active.list[k]] = State::over;
  select();
}

void Block::call(const Op& op) {
  const CallSite& site = program_->calls[static_cast<size_t>(op.immediate)];
  for (uint32_t k = 0; k < active.count; ++k) {
    const uint32_t lane = active.list[k];
    if (depth_[lane] == deepest_call) throw LaneFault{FaultKind::other, lane, "calls go too deep"};
    stack_[lane * deepest_call + depth_[lane]++] = at_;
    std::byte* frame = frames_.data() + lane * frame_stride_;
    for (const CopyAtCall& c : site.arguments) std::memcpy(frame + c.to, frame + c.from, c.bytes);
    at_of_[lane] = op.target;
  }
  select();
}

void Block::give_back() {
  for (uint32_t k = 0; k < active.count; ++k) {
    const uint32_t lane = active.list[k];
    if (depth_[lane] == 0) {
      state_[lane] = State::over;
      continue;
    }
    const int32_t from = stack_[lane * deepest_call + --depth_[lane]];
    const CallSite& site = program_->calls[static_cast<size_t>(program_->code[static_cast<size_t>(from)].immediate)];
    std::byte* frame = frames_.data() + lane * frame_stride_;
    for (const CopyAtCall& c : site.results) std::memcpy(frame + c.to, frame + c.from, c.bytes);
    at_of_[lane] = from + 1;
  }
  select();
}

void Block::barrier() {
  if (active.count == lanes_) {
    shared.block_barrier();
    ++at_;
    return;
  }
  for (uint32_t k = 0; k < active.count; ++k) {
    at_of_[active.list[k]] = at_;
    state_[active.list[k]] = State::at_barrier;
  }
  select();
}

// Runs for the warps, or warpgroups, whose named lanes are all here; the lanes of others wait.
void Block::warp(const Op& op) {
  const uint32_t* masks = op.mask < 0 ? nullptr : reg<uint32_t>(op, op.mask);
  const auto check_own = [&](uint32_t lane) {
    if (masks && !(masks[lane] >> lane % 32 & 1))
      throw LaneFault{FaultKind::warp, lane, "the lane is not in its own mask " + std::to_string(masks[lane])};
  };
  if (active.count == lanes_) {  // nobody to wait for
    for (uint32_t lane = 0; lane < lanes_; ++lane) check_own(lane);
    op.run(*this, op);
    ++at_;
    return;
  }
  for (uint32_t k = 0; k < active.count; ++k) {
    at_of_[active.list[k]] = at_;
    state_[active.list[k]] = State::at_warp;
  }
  std::vector<uint32_t> here(stride_ / 32), alive(stride_ / 32);
  for (uint32_t lane = 0; lane < lanes_; ++lane) {
    alive[lane / 32] |= uint32_t{state_[lane] != State::over} << lane % 32;
    here[lane / 32] |= uint32_t{state_[lane] == State::at_warp && at_of_[lane] == at_} << lane % 32;
  }
  uint32_t count = 0;
  for (uint32_t lane = 0; lane < lanes_; ++lane) {
    if (state_[lane] != State::at_warp || at_of_[lane] != at_) continue;
    check_own(lane);
    const uint32_t wanted = masks ? masks[lane] : 0xffffffffu;
    const uint32_t warps = op.control == Control::warpgroup ? 4 : 1, first = lane / 32 / warps * warps;
    const auto misses = [&](uint32_t warp) { return (wanted & alive[warp] & ~here[warp]) != 0; };
    bool together = true;
    for (uint32_t w = first; w < std::min<uint32_t>(first + warps, stride_ / 32); ++w)
      together = together && !misses(w);
    if (!together) continue;
    list_[count++] = static_cast<uint16_t>(lane);
  }
  for (uint32_t k = 0; k < count; ++k) state_[list_[k]] = State::runs;
  if (count > 0) {
    active = {list_.data(), count, consecutive(list_.data(), count)};
    op.run(*this, op);
    park(at_ + 1);
  }
  select();
}

// From here on in this launch the word's bytes have records of their own, which begin as the word's.
void Block::split(uint64_t word) {
  const AccessRecord seen = AccessRecord::of(range_.words[word].load(std::memory_order_acquire));
  if (seen.launch == launch_ && seen.split) return;
  HeldRecord held(range_.words[word]);
  if (held.now.launch == launch_ && held.now.split) return;
  if (held.now.launch == launch_) {
    for (uint64_t i = 0; i < 4; ++i) range_.bytes[4 * word + i].store(held.now.bits(), std::memory_order_relaxed);
  }
  held.now = {launch_};
  held.now.split = true;
}

// ---- cp.async ----

void Block::copy_async(uint32_t lane, uint64_t to, const std::byte* from, uint32_t bytes, uint32_t given) {
  AsyncCopy copy{lane, committed_[lane], bytes, to, {}};
  if (given > 0) std::memcpy(copy.data, from, given);  // `from` is null where nothing is copied
  shared.depart(lane, to, bytes);
  copies_.push_back(copy);
}

void Block::wait_async(uint32_t left, bool uncommitted) {
  std::vector<bool> waits(lanes_);
  active.each([&](uint32_t lane) { waits[lane] = true; });
  const auto arrives = [&](const AsyncCopy& c) {
    return waits[c.lane] && (uncommitted || c.group + left < committed_[c.lane]);
  };
  for (const AsyncCopy& c : copies_) {
    if (arrives(c)) shared.arrive(c.lane, c.to, c.data, c.bytes);
  }
  std::erase_if(copies_, arrives);
}

}  // namespace heddle::ptx
