// A block's shared memory and what is known of each byte.
//
// Purpose: reports reads of bytes that nobody wrote, accesses out of bounds, races, and accesses to what a cp.async has
// not brought yet. Two accesses race when different lanes make them, one writes, and no barrier stands between:
// bar.sync orders all lanes, bar.warp.sync those of its warp. Two writes of the same value do not race. A record holds
// the last writer and the readers since the last barrier; it stands for a word of four bytes until somebody touches
// less of it. Invariants: times never go back, so a new block needs nothing cleared. Thread safety: one block at a
// time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "tests/ptx/fault.h"

namespace heddle::ptx {

class SharedMemory {
 public:
  // For the next block.
  void begin(uint64_t bytes, uint32_t lanes);

  // bar.sync: everything before is ordered before everything after, for all lanes.
  void block_barrier() { block_time_ = ++now_; }
  // bar.warp.sync
  void warp_barrier(uint32_t warp) { warp_time_[warp] = ++now_; }

  // All throw LaneFault. `bytes` is 1, 2 or a multiple of 4; the address is a multiple of it, up to 16.
  const std::byte* load(uint32_t lane, uint64_t address, uint32_t bytes) {
    check(lane, address, bytes, "read");
    visit(address, bytes, [&](Record& r, uint64_t at, uint64_t) { read(r, lane, at); });
    return bytes_.data() + address;
  }
  void store(uint32_t lane, uint64_t address, const void* value, uint32_t bytes) {
    check(lane, address, bytes, "written");
    const auto* from = static_cast<const std::byte*>(value);
    visit(address, bytes, [&](Record& r, uint64_t at, uint64_t length) {
      write(r, lane, at, std::memcmp(bytes_.data() + at, from + (at - address), length) == 0);
    });
    std::memcpy(bytes_.data() + address, value, bytes);
  }
  // An atomic operation, which does not race with others.
  std::byte* update(uint32_t lane, uint64_t address, uint32_t bytes) {
    check(lane, address, bytes, "updated");
    visit(address, bytes, [&](Record& r, uint64_t at, uint64_t) { update(r, lane, at); });
    return bytes_.data() + address;
  }
  // fence.proxy.async: what the lane wrote before is seen by the asynchronous proxy.
  void show(uint32_t lane) { shown_[lane] = ++now_; }
  // A read by wgmma, which lasts until leave().
  const std::byte* load_async(uint32_t lane, uint64_t address, uint32_t bytes) {
    const std::byte* const data = load(lane, address, bytes);
    visit(address, bytes, [&](Record& r, uint64_t at, uint64_t) {
      if (r.writer < shown_.size() && r.written >= shown_[r.writer]) not_shown(lane, at, r.writer);
    });
    for (uint64_t at = address; at < address + bytes; at += 4) ++words_[at / 4].read_async;
    return data;
  }
  void leave(uint32_t lane, uint64_t address, uint32_t bytes) {
    for (uint64_t at = address; at < address + bytes; at += 4) --words_[at / 4].read_async;
    visit(address, bytes, [&](Record& r, uint64_t, uint64_t) { note_reader(r, lane); });
  }
  // The target of a cp.async, from its issue until it has arrived.
  void depart(uint32_t lane, uint64_t address, uint32_t bytes);
  void arrive(uint32_t lane, uint64_t address, const void* value, uint32_t bytes);

 private:
  static constexpr uint16_t nobody = 0xffff, many = 0xfffe, warp_base = 0x8000;  // readers: warp_base + w: lanes of w
  struct Record {
    uint32_t written = 0, read = 0;  // times
    uint16_t writer = nobody, reader = nobody;
    bool atomic = false;
  };
  // Of a word: whether its four bytes have records of their own, how many cp.async are on their way to it, and how many
  // wgmma may still read it.
  struct Word {
    uint8_t split = 0;
    uint8_t in_flight = 0;
    uint16_t read_async = 0;
  };

  void check(uint32_t lane, uint64_t address, uint32_t bytes, const char* done) const {
    if (address + bytes > size_ || address > size_) out_of_bounds(lane, address, bytes, done);
    if (address & (bytes - 1)) misaligned(lane, address, bytes, done);
  }
  template <class Visit>
  void visit(uint64_t address, uint32_t bytes, const Visit& each) {
    if (bytes >= 4) {
      for (uint64_t at = address; at < address + bytes; at += 4) {
        if (words_[at / 4].split)
          visit_bytes(at, 4, each);
        else
          each(records_[at / 4], at, 4);
      }
    } else {
      split(address / 4);
      visit_bytes(address, bytes, each);
    }
  }
  template <class Visit>
  void visit_bytes(uint64_t address, uint32_t bytes, const Visit& each) {
    for (uint64_t at = address; at < address + bytes; ++at) each(byte_records_[at], at, 1);
    merge(address / 4);
  }
  void split(uint64_t word) {
    if (words_[word].split) return;
    words_[word].split = 1;
    for (uint64_t i = 0; i < 4; ++i) byte_records_[4 * word + i] = records_[word];
  }
  void merge(uint64_t word) {
    const Record& first = byte_records_[4 * word];
    for (uint64_t i = 1; i < 4; ++i) {
      const Record& r = byte_records_[4 * word + i];
      if (r.written != first.written || r.read != first.read || r.writer != first.writer || r.reader != first.reader ||
          r.atomic != first.atomic)
        return;
    }
    words_[word].split = 0;
    records_[word] = first;
  }

  // Whether nothing orders what `other` did at `time` before what `lane` does now.
  bool unordered(uint16_t other, uint32_t time, uint32_t lane) const {
    if (time < block_time_ || other == lane || other == nobody) return false;
    const bool same_warp = other < warp_base ? other / 32u == lane / 32u : other == warp_base + lane / 32u;
    return !same_warp || time >= warp_time_[lane / 32u];
  }
  void read(Record& r, uint32_t lane, uint64_t at) {
    if (r.written < begin_) unwritten(lane, at);
    if (r.written >= block_time_ && unordered(r.writer, r.written, lane)) race(lane, at, "reads", r.writer, "wrote");
    if (words_[at / 4].in_flight) not_arrived(lane, at, "reads");
    note_reader(r, lane);
  }
  void note_reader(Record& r, uint32_t lane) {
    const auto mine = static_cast<uint16_t>(warp_base + lane / 32u);
    if (r.read < block_time_ || r.reader == nobody) {
      r.reader = static_cast<uint16_t>(lane);
    } else if (r.reader != lane && r.reader != many) {
      const bool same_warp = r.reader == mine || (r.reader < warp_base && r.reader / 32u == lane / 32u);
      const bool ordered = same_warp && r.read < warp_time_[lane / 32u];
      r.reader = ordered ? static_cast<uint16_t>(lane) : same_warp ? mine : many;
    }
    r.read = now_;
  }
  void write(Record& r, uint32_t lane, uint64_t at, bool same) {
    if (words_[at / 4].in_flight) not_arrived(lane, at, "writes");
    if (words_[at / 4].read_async) still_read(lane, at);
    if (!same) conflicts(r, lane, at, "writes");
    r.writer = static_cast<uint16_t>(lane);
    r.written = now_;
    r.atomic = false;
  }
  void conflicts(const Record& r, uint32_t lane, uint64_t at, const char* does) const {
    if (r.written >= block_time_ && unordered(r.writer, r.written, lane)) race(lane, at, does, r.writer, "wrote");
    if (r.read >= block_time_ && unordered(r.reader, r.read, lane)) race(lane, at, does, r.reader, "read");
  }
  void update(Record& r, uint32_t lane, uint64_t at) {
    if (r.written < begin_) unwritten(lane, at);
    if (words_[at / 4].in_flight) not_arrived(lane, at, "updates");
    const bool since = r.written >= block_time_;
    if (!(since && r.atomic)) conflicts(r, lane, at, "updates");
    r.writer = since && r.atomic && r.writer != lane ? many : static_cast<uint16_t>(lane);
    r.written = now_;
    r.atomic = true;
  }

  [[noreturn]] void out_of_bounds(uint32_t lane, uint64_t address, uint32_t bytes, const char* done) const;
  [[noreturn]] static void misaligned(uint32_t lane, uint64_t address, uint32_t bytes, const char* done);
  [[noreturn]] static void unwritten(uint32_t lane, uint64_t at);
  [[noreturn]] static void not_arrived(uint32_t lane, uint64_t at, const char* does);
  [[noreturn]] static void still_read(uint32_t lane, uint64_t at);
  [[noreturn]] static void not_shown(uint32_t lane, uint64_t at, uint16_t writer);
  [[noreturn]] static void race(uint32_t lane, uint64_t at, const char* does, uint16_t other, const char* did);

  std::vector<std::byte> bytes_;
  std::vector<Record> records_, byte_records_;  // of words; of the bytes of those that are split
  std::vector<Word> words_;
  std::vector<uint32_t> warp_time_, shown_;  // shown_: by lane
  uint64_t size_ = 0;
  uint32_t now_ = 1, begin_ = 1, block_time_ = 1;  // times of the block's begin and of its last barrier
};

}  // namespace heddle::ptx
