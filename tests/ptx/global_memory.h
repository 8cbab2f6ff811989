// The ranges of host memory that kernels may touch, and which blocks touched each byte.
//
// Purpose: answers for an access whether it lies in one allocation, and whether it races: two blocks of one launch at
// the same byte, one of which writes, as nothing orders blocks. Atomic operations do not race with each other, nor does
// a write of what stands there. A word of four bytes has one record until somebody touches less of it in a launch; then
// its bytes have one each. Invariants: ranges are sorted and apart and begin at a word; a record counts in the launch
// it names only, so a launch needs nothing cleared; records that nobody touches take no memory. Thread safety: ranges
// may be added, removed and found by several threads; a record is read whole, and changed by the one that holds it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

namespace heddle::ptx {

// Which block wrote a byte or a word last in a launch, and which read it.
struct AccessRecord {
  static constexpr uint32_t none = 0, many = 0xffffff;
  static constexpr uint32_t most_blocks = many - 1;  // of a launch; blocks count from 1 here
  uint32_t launch = 0;                               // 13 bits
  uint32_t writer = none, reader = none;             // 24 bits each
  bool atomic = false;                               // the writer's operations were atomic
  bool split = false;                                // a word's: the records of its bytes count

  static constexpr uint64_t held = uint64_t{1} << 50;  // by a thread that changes it
  static constexpr uint32_t most_launches = 0x1fff;
  static AccessRecord of(uint64_t bits) {
    return {static_cast<uint32_t>(bits >> 51), static_cast<uint32_t>(bits >> 24 & 0xffffff),
            static_cast<uint32_t>(bits & 0xffffff), (bits >> 48 & 1) != 0, (bits >> 49 & 1) != 0};
  }
  uint64_t bits() const {
    return uint64_t{launch} << 51 | uint64_t{split} << 49 | uint64_t{atomic} << 48 | uint64_t{writer} << 24 |
           uint64_t{reader};
  }
};

using Records = std::atomic<uint64_t>*;

// A record that this thread alone changes; what `now` is at the end is kept. Of one held by another it waits for the
// few instructions that takes.
class HeldRecord {
 public:
  explicit HeldRecord(std::atomic<uint64_t>& record) : record_(record) {
    uint64_t bits = record.load(std::memory_order_relaxed) & ~AccessRecord::held;
    while (!record.compare_exchange_weak(bits, bits | AccessRecord::held, std::memory_order_acquire)) {
      if (bits & AccessRecord::held) std::this_thread::yield();
      bits &= ~AccessRecord::held;
    }
    now = AccessRecord::of(bits);
  }
  ~HeldRecord() { record_.store(now.bits(), std::memory_order_release); }
  HeldRecord(const HeldRecord&) = delete;
  HeldRecord& operator=(const HeldRecord&) = delete;

  AccessRecord now;

 private:
  std::atomic<uint64_t>& record_;
};

struct MemoryRange {
  uint64_t begin = 0, end = 0;
  Records words = nullptr, bytes = nullptr;
};

class GlobalMemory {
 public:
  void add(const void* begin, uint64_t bytes);
  void remove(const void* begin);
  // The range that holds the address, or an empty one.
  MemoryRange find(uint64_t address) const;
  // A number that no launch has had whose records are still there. One launch at a time.
  uint32_t begin_launch();

 private:
  // Memory that holds zeros, and is none until it is touched.
  class Zeros {
   public:
    explicit Zeros(uint64_t bytes);
    ~Zeros();
    Zeros(const Zeros&) = delete;
    Zeros& operator=(const Zeros&) = delete;
    void clear();
    void* get() const { return at_; }

   private:
    void* at_ = nullptr;
    uint64_t bytes_ = 0;
  };
  struct Range {
    uint64_t begin = 0, end = 0;
    std::unique_ptr<Zeros> words, bytes;  // their records
  };

  mutable std::mutex mutex_;
  std::map<uint64_t, Range> ranges_;
  uint32_t launch_ = 0;
};

}  // namespace heddle::ptx
