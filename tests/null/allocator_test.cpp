// CachingAllocator over the null device: properties under random sequences, reuse, trim, limits and out-of-memory.
#include "heddle/core/device/allocator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <vector>

#include "heddle/core/base/error.h"
#include "heddle/core/device/context.h"
#include "heddle/core/device/null_device.h"

namespace heddle {
namespace {

// A device whose memory ends after `budget` bytes, whatever its caps say; counts the driver's calls.
class ScarceDevice final : public Device {
 public:
  explicit ScarceDevice(uint64_t budget, Caps caps = NullDevice::null_caps())
      : inner_(std::move(caps)), budget_(budget) {}

  const Caps& caps() const override { return inner_.caps(); }
  BufferId alloc(uint64_t bytes) override {
    ++allocs;
    if (inner_.live_bytes() + bytes > budget_) throw OutOfMemory("[scarce] driver says no");
    return inner_.alloc(bytes);
  }
  void free(BufferId buffer) override {
    ++frees;
    inner_.free(buffer);
  }
  void write(BufferId b, uint64_t o, const void* s, uint64_t n) override { inner_.write(b, o, s, n); }
  void read(BufferId b, uint64_t o, void* t, uint64_t n) override { inner_.read(b, o, t, n); }
  KernelId compile(const KernelSource& s) override { return inner_.compile(s); }
  void release(KernelId k) override { inner_.release(k); }
  RecordingId record(std::span<const Command> c, bool timed) override { return inner_.record(c, timed); }
  void release(RecordingId r) override { inner_.release(r); }
  Ticket submit(RecordingId r) override { return inner_.submit(r); }
  void wait(Ticket t, std::vector<double>* s) override { inner_.wait(t, s); }

  NullDevice& inner() { return inner_; }
  int allocs = 0;
  int frees = 0;

 private:
  NullDevice inner_;
  uint64_t budget_;
};

// The model that the allocator is compared with: which bytes of which buffer are taken.
class Taken {
 public:
  void add(const Allocation& a) {
    auto& ranges = ranges_[a.buffer];
    auto next = ranges.lower_bound(a.offset);
    bool before_next = next == ranges.end() || a.offset + a.reserved <= next->first;
    bool after_previous = next == ranges.begin() || std::prev(next)->second <= a.offset;
    ASSERT_TRUE(before_next && after_previous) << "[" << a.offset << ", +" << a.reserved << ") overlaps a live range";
    ranges[a.offset] = a.offset + a.reserved;
  }
  void remove(const Allocation& a) { ranges_[a.buffer].erase(a.offset); }

 private:
  std::map<BufferId, std::map<uint64_t, uint64_t>> ranges_;
};

uint64_t random_size(std::mt19937_64& random) {
  switch (random() % 6) {
    case 0:
      return random() % 4;  // zero and tiny
    case 1:
      return random() % 1000;
    case 2:
      return 256 * (random() % 64);  // exact multiples of the alignment
    case 3:
      return random() % (1 << 20);
    case 4:
      return (1 << 20) + random() % (8 << 20);  // the large class
    default:
      return (16 << 20) + random() % (48 << 20);  // dedicated blocks
  }
}

TEST(Allocator, RandomSequencesKeepTheInvariants) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    NullDevice device;
    CachingAllocator allocator(device);
    Taken taken;
    std::vector<Allocation> live;
    uint64_t live_bytes = 0, peak = 0, count = 0;
    for (int step = 0; step < 400; ++step) {
      if (live.empty() || random() % 5 < 3) {
        uint64_t bytes = random_size(random);
        Allocation a = allocator.allocate(bytes);
        ++count;
        ASSERT_EQ(a.bytes, bytes);
        ASSERT_GE(a.reserved, std::max<uint64_t>(bytes, 1));
        ASSERT_EQ(a.offset % device.caps().buffer_alignment, 0u);
        ASSERT_LE(a.offset + a.reserved, device.buffer_bytes(a.buffer));
        taken.add(a);
        if (testing::Test::HasFatalFailure()) return;
        live.push_back(a);
        live_bytes += a.reserved;
        peak = std::max(peak, live_bytes);
      } else {
        size_t victim = random() % live.size();
        taken.remove(live[victim]);
        allocator.release(live[victim]);
        live_bytes -= live[victim].reserved;
        live[victim] = live.back();
        live.pop_back();
      }
      if (step % 97 == 96) allocator.trim();
      ASSERT_NO_THROW(allocator.verify());
      AllocatorStats stats = allocator.stats();
      ASSERT_EQ(stats.live_bytes, live_bytes);
      ASSERT_EQ(stats.peak_bytes, peak);
      ASSERT_EQ(stats.allocations, count);
      ASSERT_EQ(stats.reserved_bytes, device.live_bytes());
      ASSERT_EQ(stats.blocks, device.live_buffers());
    }
    for (const Allocation& a : live) allocator.release(a);
    allocator.verify();
    EXPECT_EQ(allocator.stats().live_bytes, 0u);
    allocator.trim();
    EXPECT_EQ(device.live_buffers(), 0u) << "everything was free, so trim gives every block back";
    EXPECT_EQ(allocator.stats().reserved_bytes, 0u);
  }
}

TEST(Allocator, ReusesWhatWasReleasedWithoutAskingTheDriver) {
  ScarceDevice device(uint64_t{1} << 30);
  CachingAllocator allocator(device);
  Allocation first = allocator.allocate(1000);
  allocator.release(first);
  int asked = device.allocs;
  for (int i = 0; i < 100; ++i) {
    Allocation again = allocator.allocate(1000);
    EXPECT_EQ(again.buffer, first.buffer);
    EXPECT_EQ(again.offset, first.offset) << "the lowest fitting range is taken";
    allocator.release(again);
  }
  EXPECT_EQ(device.allocs, asked);
}

TEST(Allocator, MergesNeighboursInAnyOrderOfRelease) {
  std::vector<int> order{0, 1, 2};
  do {
    NullDevice device;
    CachingAllocator allocator(device);
    std::vector<Allocation> parts;
    for (int i = 0; i < 3; ++i) parts.push_back(allocator.allocate(1 << 20));
    uint64_t blocks = allocator.stats().blocks;
    for (int i : order) {
      allocator.release(parts[static_cast<size_t>(i)]);
      allocator.verify();
    }
    Allocation whole = allocator.allocate(1 << 20);  // the merged range starts where the first part did
    EXPECT_EQ(whole.offset, 0u);
    EXPECT_EQ(allocator.stats().blocks, blocks);
    allocator.release(whole);
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST(Allocator, TakesTheBestFittingGap) {
  NullDevice device;
  CachingAllocator allocator(device);
  // Gaps of 4096 and 1024 bytes between live ranges.
  Allocation large = allocator.allocate(4096), wall1 = allocator.allocate(256), small = allocator.allocate(1024),
             wall2 = allocator.allocate(256);
  allocator.release(large);
  allocator.release(small);
  Allocation fit = allocator.allocate(1000);
  EXPECT_EQ(fit.offset, small.offset);
  allocator.release(fit);
  allocator.release(wall1);
  allocator.release(wall2);
}

TEST(Allocator, FollowsALargerAlignmentOfTheDevice) {
  Caps caps = NullDevice::null_caps();
  caps.buffer_alignment = 1024;
  NullDevice device(caps);
  CachingAllocator allocator(device);
  for (uint64_t bytes : {1u, 300u, 1024u, 1025u}) {
    Allocation a = allocator.allocate(bytes);
    EXPECT_EQ(a.offset % 1024, 0u);
    EXPECT_EQ(a.reserved % 1024, 0u);
  }
  caps.buffer_alignment = 16;  // never below 256
  NullDevice fine(caps);
  CachingAllocator second(fine);
  second.allocate(1);
  EXPECT_EQ(second.allocate(1).offset % 256, 0u);
}

TEST(Allocator, RefusesWhatIsOverTheLimitAndGivesExactlyTheLimit) {
  Caps caps = NullDevice::null_caps();
  caps.max_allocation_bytes = (8 << 20) + 77;
  NullDevice device(caps);
  CachingAllocator allocator(device);
  try {
    allocator.allocate(caps.max_allocation_bytes + 1);
    FAIL() << "no LimitError";
  } catch (const LimitError& error) {
    EXPECT_NE(std::string(error.what()).find("max_allocation_bytes"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find(std::to_string(caps.max_allocation_bytes + 1)), std::string::npos)
        << error.what();
  }
  Allocation whole = allocator.allocate(caps.max_allocation_bytes);
  EXPECT_EQ(whole.offset, 0u);
  EXPECT_GE(whole.reserved, caps.max_allocation_bytes);
  allocator.verify();
  allocator.release(whole);
  allocator.release(allocator.allocate(2 << 20));
  allocator.verify();
}

TEST(Allocator, OutOfMemoryTellsWhatIsLiveAndWhatToTry) {
  ScarceDevice device(100 << 20);
  CachingAllocator allocator(device);
  Allocation held = allocator.allocate(60 << 20);
  try {
    allocator.allocate(50 << 20);
    FAIL() << "no OutOfMemory";
  } catch (const OutOfMemory& error) {
    std::string text = error.what();
    EXPECT_EQ(text.rfind("[allocate]", 0), 0u) << text;
    for (const std::string& part :
         {std::to_string(50 << 20), std::to_string(60 << 20), std::string("live"), std::string("largest"),
          std::string("smaller batch"), std::string("checkpointing")}) {
      EXPECT_NE(text.find(part), std::string::npos) << part << " in: " << text;
    }
  }
  allocator.verify();
  EXPECT_EQ(allocator.stats().live_bytes, held.reserved);
  EXPECT_NO_THROW(allocator.release(allocator.allocate(30 << 20))) << "a failed request leaves the rest usable";
}

TEST(Allocator, ReturnsUnusedBlocksBeforeGivingUp) {
  ScarceDevice device(100 << 20);
  CachingAllocator allocator(device);
  allocator.release(allocator.allocate(70 << 20));  // cached, not live
  Allocation a = allocator.allocate(90 << 20);      // fits only after the cached block went back
  EXPECT_GE(device.frees, 1);
  EXPECT_EQ(a.bytes, uint64_t{90} << 20);
  allocator.verify();
}

TEST(Allocator, TakesASmallBlockWhereARoomyOneDoesNotFit) {
  ScarceDevice device(1 << 20);  // less than any roomy block
  CachingAllocator allocator(device);
  Allocation a = allocator.allocate(500000);
  EXPECT_LE(device.inner().buffer_bytes(a.buffer), uint64_t{1} << 20);
  allocator.verify();
}

TEST(Allocator, PeakCanBeReset) {
  NullDevice device;
  CachingAllocator allocator(device);
  Allocation a = allocator.allocate(1 << 20), b = allocator.allocate(256);
  allocator.release(a);
  EXPECT_EQ(allocator.stats().peak_bytes, (uint64_t{1} << 20) + 256);
  allocator.reset_peak();
  EXPECT_EQ(allocator.stats().peak_bytes, 256u);
  allocator.release(b);
}

TEST(Allocator, RefusesForeignAndRepeatedReleases) {
  NullDevice device;
  CachingAllocator allocator(device);
  Allocation a = allocator.allocate(512);
  Allocation shifted = a;
  shifted.offset += 256;
  EXPECT_THROW(allocator.release(shifted), std::logic_error);
  EXPECT_THROW(allocator.release({BufferId{999}, 0, 1, 256}), std::logic_error);
  allocator.release(a);
  EXPECT_THROW(allocator.release(a), std::logic_error);
  allocator.verify();
}

// Between live neighbours a freed range stays what it was.
TEST(Allocator, RefusesRepeatedReleasesBetweenNeighbours) {
  NullDevice device;
  CachingAllocator allocator(device);
  const std::vector<Allocation> parts = allocator.allocate_adjacent({512, 512, 512});
  EXPECT_EQ(allocator.stats().allocations, 3u);
  Allocation longer = parts[1];
  longer.reserved += 256;
  EXPECT_THROW(allocator.release(longer), std::logic_error);
  allocator.release(parts[1]);
  EXPECT_THROW(allocator.release(parts[1]), std::logic_error);
  EXPECT_EQ(allocator.stats().live_bytes, 1024u);
  allocator.verify();
}

TEST(Allocator, DestructorGivesEveryBlockBack) {
  NullDevice device;
  {
    CachingAllocator allocator(device);
    allocator.allocate(100);
    allocator.allocate(40 << 20);
    EXPECT_EQ(device.live_buffers(), 2u);
  }
  EXPECT_EQ(device.live_buffers(), 0u);
}

}  // namespace
}  // namespace heddle
