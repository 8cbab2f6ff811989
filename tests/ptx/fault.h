// What the executor of PTX reports.
//
// Purpose: two kinds of error, kept apart: text that the executor does not understand, and a kernel that does what it
// must not. Thread safety: values.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

namespace heddle::ptx {

// Text that is no PTX, or PTX that the executor does not know: "[ptx] unknown opcode 'foo.bar' (line 42: ...)".
class PtxError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

enum class FaultKind {
  bounds,         // an access outside of what was allocated
  misaligned,     // an address that is no multiple of the access's size
  race,           // two lanes at the same bytes of shared memory with no barrier between them
  uninitialised,  // a read of shared memory that nobody wrote
  in_flight,      // what an asynchronous instruction writes or reads is touched, or its registers are, before the wait
  not_shown,      // shared memory that wgmma reads, with no fence between proxies since it was written
  barrier,        // a barrier that not all lanes reach
  warp,           // an instruction of a warp whose lanes are not together, or that reads a lane that is not there
  other,
};
inline const char* name_of(FaultKind kind) {
  constexpr const char* names[] = {"out of bounds",
                                   "misaligned access",
                                   "race",
                                   "nobody wrote it",
                                   "asynchronous access in flight",
                                   "no fence between proxies",
                                   "divergent barrier",
                                   "divergent warp",
                                   "execution failed"};
  return names[static_cast<int>(kind)];
}

// What a lane did, as an instruction reports it; the block adds where.
struct LaneFault {
  FaultKind kind;
  uint32_t lane;
  std::string text;
};

// What a kernel did, with kernel, block, lane, line of the PTX and line of the kernel's text.
class Fault : public std::runtime_error {
 public:
  Fault(FaultKind what, const std::string& text) : std::runtime_error(text), kind(what) {}
  FaultKind kind;
};

}  // namespace heddle::ptx
