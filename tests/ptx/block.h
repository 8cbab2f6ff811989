// One block of a launch, its lanes in step.
//
// Purpose: runs a program. The lanes with the lowest instruction step together, so that lanes that went apart meet
// again; a barrier holds its lanes until all are there, an instruction of a warp until those are that it names, and
// where nobody can go on that is a fault. Thread safety: one block a thread; all share the program and global memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "tests/ptx/global_memory.h"
#include "tests/ptx/program.h"
#include "tests/ptx/shared_memory.h"
#include "tests/ptx/warpgroups.h"

namespace heddle::ptx {

struct LaunchShape {
  uint32_t grid[3] = {1, 1, 1}, block[3] = {1, 1, 1};
  uint32_t dynamic_shared = 0;
};

// What is done to global memory. An invariant read is one by a cache that sees no writes of its own launch.
enum class Touch : uint8_t { read, read_invariant, write, update };

// The lanes that an instruction works on.
struct Active {
  const uint16_t* list = nullptr;
  uint32_t count = 0;
  bool dense = false;  // one behind the other

  template <class Each>
  void each(const Each& body) const {
    if (dense) {
      const uint32_t first = list[0], end = first + count;
#ifndef __clang__
#pragma GCC ivdep
#endif
      for (uint32_t i = first; i < end; ++i) body(i);
    } else {
      for (uint32_t k = 0; k < count; ++k) body(list[k]);
    }
  }
};

class Block {
 public:
  // What follows is of one launch until the next begin().
  // `number` is the launch's.
  void begin(const Program& program, const LaunchShape& shape, const std::byte* parameters, const GlobalMemory& memory,
             uint32_t number);
  // Throws Fault.
  void run(uint32_t x, uint32_t y, uint32_t z);

  // ---- for instructions ----
  template <class T>
  T* reg(const Op& op, int operand) {
    return reinterpret_cast<T*>(registers_.data() + size_t{op.operands[operand]} * stride_);
  }
  template <class T>
  T* at_place(uint32_t place) {
    return reinterpret_cast<T*>(registers_.data() + size_t{place} * stride_);
  }
  // `bytes` of global memory, in one allocation; throws LaneFault.
  template <Touch How>
  std::byte* global(uint32_t lane, uint64_t address, uint32_t bytes) {
    check_global(lane, address, bytes);
    note<How>(lane, address, bytes);
    return reinterpret_cast<std::byte*>(address);
  }
  void store_global(uint32_t lane, uint64_t address, const void* value, uint32_t bytes) {
    check_global(lane, address, bytes);
    note<Touch::write>(lane, address, bytes, static_cast<const std::byte*>(value));
  }
  std::byte* local(uint32_t lane, uint64_t address, uint32_t bytes) {
    if (address > program_->frame_bytes || bytes > program_->frame_bytes - address)
      outside(lane, address, bytes, "local");
    if (address & (bytes - 1)) misaligned(lane, address, bytes, "local");
    return frames_.data() + lane * frame_stride_ + address;
  }
  const std::byte* parameters() const { return parameters_; }
  const Program& program() const { return *program_; }
  uint32_t lanes() const { return lanes_; }
  uint64_t clock() const { return steps_; }

  // cp.async of the lane: issued, committed, and waited for until `left` groups are on their way.
  void copy_async(uint32_t lane, uint64_t to, const std::byte* from, uint32_t bytes, uint32_t given);
  void commit_async(uint32_t lane) { ++committed_[lane]; }
  void wait_async(uint32_t left, bool uncommitted);

  Active active;
  SharedMemory shared;
  Warpgroups warpgroups;

 private:
  enum class State : uint8_t { runs, at_barrier, at_warp, over };
  struct AsyncCopy {
    uint32_t lane, group, bytes;
    uint64_t to;
    std::byte data[16];
  };
  static constexpr uint32_t deepest_call = 16;
  static constexpr int32_t none = 0x7fffffff;
  static constexpr uint64_t most_steps = 200'000'000;

  void fill(const Program& program);
  void place_specials(uint32_t x, uint32_t y, uint32_t z);
  void step();
  void narrow(const Op& op);
  void park(int32_t at);
  bool select();
  void release_or_fail();
  void branch(const Op& op);
  void leave();
  void call(const Op& op);
  void give_back();
  void barrier();
  void warp(const Op& op);
  [[noreturn]] void find_fault(const LaneFault& fault, int32_t at) const;
  [[noreturn]] void stuck(uint32_t lane, const std::string& text) const;
  std::string doing(uint32_t lane) const;
  std::string source_of(const Where& where) const;
  void check_global(uint32_t lane, uint64_t address, uint32_t bytes) {
    if (address - range_.begin >= range_.end - range_.begin || bytes > range_.end - address)
      find_range(lane, address, bytes);
    if (address & (bytes - 1)) misaligned(lane, address, bytes, "global");
  }
  template <Touch How>
  void note(uint32_t lane, uint64_t address, uint32_t bytes, const std::byte* value = nullptr);
  template <Touch How>
  void note_bytes(uint32_t lane, uint64_t address, uint32_t bytes, const std::byte* value);
  template <Touch How>
  bool is_noted(const AccessRecord& record) const;
  template <Touch How, uint32_t Bytes>
  bool note_in(std::atomic<uint64_t>& record, uint32_t lane, uint64_t address, const std::byte* value);
  void split(uint64_t word);
  [[noreturn]] void race(uint32_t lane, uint64_t address, Touch how, const AccessRecord& met) const;
  std::string behind_parameter(uint64_t address) const;
  void find_range(uint32_t lane, uint64_t address, uint32_t bytes);
  [[noreturn]] static void misaligned(uint32_t lane, uint64_t address, uint32_t bytes, const char* memory);
  [[noreturn]] void outside(uint32_t lane, uint64_t address, uint32_t bytes, const char* memory) const;

  const Program* program_ = nullptr;
  const GlobalMemory* memory_ = nullptr;
  const std::byte* parameters_ = nullptr;
  LaunchShape shape_;
  uint32_t block_[3] = {};
  uint32_t lanes_ = 0, stride_ = 0;
  std::vector<std::byte> registers_, frames_;
  uint64_t frame_stride_ = 0;
  MemoryRange range_;    // that was found last
  uint32_t launch_ = 0;  // for the records of global memory
  uint32_t number_ = 0;  // of the block, from 1

  int32_t at_ = 0;     // instruction of the active lanes
  int32_t other_ = 0;  // the lowest of the others that run
  uint64_t steps_ = 0;
  std::vector<int32_t> at_of_;  // of lanes that are not active
  std::vector<State> state_;
  std::vector<uint16_t> list_, narrowed_;
  std::vector<int32_t> stack_;  // call instructions, deepest_call for each lane
  std::vector<uint8_t> depth_;
  std::vector<AsyncCopy> copies_;
  std::vector<uint32_t> committed_;
};

// Notes an access, compares it with those of other blocks, and writes the value of a Touch::write.
template <Touch How>
void Block::note(uint32_t lane, uint64_t address, uint32_t bytes, const std::byte* value) {
  if (bytes < 4) {
    split((address - range_.begin) / 4);
    return note_bytes<How>(lane, address, bytes, value);
  }
  for (uint64_t at = address; at < address + bytes; at += 4) {
    if (!note_in<How, 4>(range_.words[(at - range_.begin) / 4], lane, at, value)) note_bytes<How>(lane, at, 4, value);
    if constexpr (How == Touch::write) value += 4;
  }
}

template <Touch How>
void Block::note_bytes(uint32_t lane, uint64_t address, uint32_t bytes, const std::byte* value) {
  for (uint64_t at = address; at < address + bytes; ++at) {
    note_in<How, 1>(range_.bytes[at - range_.begin], lane, at, value);
    if constexpr (How == Touch::write) ++value;
  }
}

// The block has done the same at this place before, and no other was there: nothing is to be compared.
template <Touch How>
bool Block::is_noted(const AccessRecord& r) const {
  if (r.launch != launch_ || r.split) return false;
  const bool mine = r.writer == number_, unwritten = r.writer == AccessRecord::none;
  if (How == Touch::write) return mine && !r.atomic && (r.reader == AccessRecord::none || r.reader == number_);
  const bool read = r.reader == number_ || r.reader == AccessRecord::many;
  return (How == Touch::read && read && (mine || unwritten)) || (How == Touch::read_invariant && read && unwritten);
}

// False where the record is of a word whose bytes have their own. The thread that holds a record compares and writes
// the value, so that blocks which write one value at one moment are no race, and of two values one is found.
template <Touch How, uint32_t Bytes>
bool Block::note_in(std::atomic<uint64_t>& record, uint32_t lane, uint64_t address, const std::byte* value) {
  auto* const to = reinterpret_cast<std::byte*>(address);
  if (is_noted<How>(AccessRecord::of(record.load(std::memory_order_relaxed)))) {
    if constexpr (How == Touch::write) std::memcpy(to, value, Bytes);
    return true;
  }
  HeldRecord held(record);
  AccessRecord& r = held.now;
  if (r.launch != launch_) r = {launch_};
  if (r.split) return false;
  const bool foreign_write = r.writer != AccessRecord::none && r.writer != number_;
  if constexpr (How == Touch::read || How == Touch::read_invariant) {
    if (foreign_write || (How == Touch::read_invariant && r.writer != AccessRecord::none)) race(lane, address, How, r);
    r.reader = r.reader == AccessRecord::none || r.reader == number_ ? number_ : AccessRecord::many;
  } else {
    const bool together = How == Touch::update && r.atomic;
    const bool same = How == Touch::write && std::memcmp(to, value, Bytes) == 0;
    const bool meets = (foreign_write && !together) || (r.reader != AccessRecord::none && r.reader != number_);
    if (meets && !same) race(lane, address, How, r);
    if constexpr (How == Touch::write) std::memcpy(to, value, Bytes);
    r.atomic = How == Touch::update && (r.atomic || r.writer == AccessRecord::none);
    r.writer = foreign_write ? AccessRecord::many : number_;
  }
  return true;
}

}  // namespace heddle::ptx
