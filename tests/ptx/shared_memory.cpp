#include "tests/ptx/shared_memory.h"

#include <algorithm>

namespace heddle::ptx {

void SharedMemory::begin(uint64_t bytes, uint32_t lanes) {
  constexpr uint32_t late = 0xf0000000u;  // times are about to run out
  if (now_ > late) {
    std::fill(records_.begin(), records_.end(), Record{});
    std::fill(byte_records_.begin(), byte_records_.end(), Record{});
    now_ = 1;
  }
  const uint64_t padded = (bytes + 15) / 16 * 16;
  if (bytes_.size() < padded) {
    bytes_.resize(padded);
    records_.resize(padded / 4);
    byte_records_.resize(padded);
    words_.resize(padded / 4);
  }
  std::fill_n(words_.begin(), padded / 4, Word{});
  size_ = bytes;
  begin_ = block_time_ = ++now_;
  warp_time_.assign((lanes + 31) / 32, now_);
  shown_.assign(lanes, now_);
}

void SharedMemory::depart(uint32_t lane, uint64_t address, uint32_t bytes) {
  check(lane, address, bytes, "written");
  visit(address, bytes, [&](Record& r, uint64_t at, uint64_t) { write(r, lane, at, false); });
  for (uint64_t at = address; at < address + bytes; at += 4) ++words_[at / 4].in_flight;
}

void SharedMemory::arrive(uint32_t lane, uint64_t address, const void* value, uint32_t bytes) {
  for (uint64_t at = address; at < address + bytes; at += 4) --words_[at / 4].in_flight;
  visit(address, bytes, [&](Record& r, uint64_t at, uint64_t) { write(r, lane, at, false); });
  std::memcpy(bytes_.data() + address, value, bytes);
}

void SharedMemory::out_of_bounds(uint32_t lane, uint64_t address, uint32_t bytes, const char* done) const {
  throw LaneFault{FaultKind::bounds, lane,
                  "bytes " + std::to_string(static_cast<int64_t>(address)) + " to " +
                      std::to_string(static_cast<int64_t>(address + bytes)) + " of shared memory are " + done +
                      ", it has " + std::to_string(size_)};
}

void SharedMemory::misaligned(uint32_t lane, uint64_t address, uint32_t bytes, const char* done) {
  throw LaneFault{FaultKind::misaligned, lane,
                  std::to_string(bytes) + " bytes of shared memory are " + done + " at " + std::to_string(address)};
}

void SharedMemory::unwritten(uint32_t lane, uint64_t at) {
  throw LaneFault{FaultKind::uninitialised, lane, "byte " + std::to_string(at) + " of shared memory is read"};
}

void SharedMemory::not_arrived(uint32_t lane, uint64_t at, const char* does) {
  throw LaneFault{FaultKind::in_flight, lane,
                  "the lane " + std::string(does) + " byte " + std::to_string(at) +
                      " of shared memory, which a cp.async fills that nobody has waited for"};
}

void SharedMemory::still_read(uint32_t lane, uint64_t at) {
  throw LaneFault{FaultKind::in_flight, lane,
                  "the lane writes byte " + std::to_string(at) +
                      " of shared memory, which a wgmma reads that nobody has waited for"};
}

void SharedMemory::not_shown(uint32_t lane, uint64_t at, uint16_t writer) {
  throw LaneFault{FaultKind::not_shown, lane,
                  "a wgmma reads byte " + std::to_string(at) + " of shared memory, which lane " +
                      std::to_string(writer) + " wrote with no fence.proxy.async since"};
}

void SharedMemory::race(uint32_t lane, uint64_t at, const char* does, uint16_t other, const char* did) {
  std::string who;
  if (other < warp_base)
    who = "lane " + std::to_string(other);
  else if (other == many)
    who = "several lanes";
  else
    who = "lanes of warp " + std::to_string(other - warp_base);
  throw LaneFault{FaultKind::race, lane,
                  "the lane " + std::string(does) + " byte " + std::to_string(at) + " of shared memory, which " + who +
                      " " + did + " with no barrier since"};
}

}  // namespace heddle::ptx
