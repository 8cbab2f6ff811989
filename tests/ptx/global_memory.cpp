#include "tests/ptx/global_memory.h"

#include <sys/mman.h>

#include <iterator>
#include <new>

namespace heddle::ptx {

GlobalMemory::Zeros::Zeros(uint64_t bytes) : bytes_(bytes) {
  if (bytes_ == 0) return;
  at_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at_ == MAP_FAILED) throw std::bad_alloc();
}

GlobalMemory::Zeros::~Zeros() {
  if (at_) munmap(at_, bytes_);
}

void GlobalMemory::Zeros::clear() {
  if (at_) madvise(at_, bytes_, MADV_DONTNEED);
}

void GlobalMemory::add(const void* begin, uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  const auto at = reinterpret_cast<uintptr_t>(begin);
  constexpr uint64_t record = sizeof(std::atomic<uint64_t>);
  ranges_[at] = {at, at + bytes, std::make_unique<Zeros>((bytes + 3) / 4 * record),
                 std::make_unique<Zeros>((bytes + 3) / 4 * 4 * record)};
}

void GlobalMemory::remove(const void* begin) {
  const std::lock_guard lock(mutex_);
  ranges_.erase(reinterpret_cast<uintptr_t>(begin));
}

MemoryRange GlobalMemory::find(uint64_t address) const {
  const std::lock_guard lock(mutex_);
  auto after = ranges_.upper_bound(address);
  if (after == ranges_.begin()) return {};
  const Range& range = std::prev(after)->second;
  if (address >= range.end) return {};
  return {range.begin, range.end, static_cast<Records>(range.words->get()), static_cast<Records>(range.bytes->get())};
}

uint32_t GlobalMemory::begin_launch() {
  const std::lock_guard lock(mutex_);
  if (launch_ == AccessRecord::most_launches) {
    for (auto& [begin, range] : ranges_) {
      range.words->clear();
      range.bytes->clear();
    }
    launch_ = 0;
  }
  return ++launch_;
}

}  // namespace heddle::ptx
