// The n-th call of a kind fails: a program that defines these functions itself (fault_calls.cpp) is asked for memory
// and files in their stead.
//
// Purpose: errors that a machine shows once in a year, at every place. Counts live in shared memory: they outlast the
// process that made them. Invariants: nothing is counted and nothing fails before arm(). Thread safety: arm() before
// threads are started; counting is atomic.
#pragma once

#include <array>
#include <cstdint>

namespace heddle::test {

// Calls of the C library: open, openat; write; fsync, fdatasync; rename; mmap; malloc and its like, which `new` calls.
enum class Call { open, write, fsync, rename, mmap, alloc };
inline constexpr std::array all_calls = {Call::open, Call::write, Call::fsync, Call::rename, Call::mmap, Call::alloc};
const char* name_of(Call call);

struct Fault {
  Call call = Call::open;
  uint64_t number = 0;     // from 1; 0: none
  int error = 0;           // what errno says; 0: nothing fails
  bool partial = false;    // of a write: half of the bytes are written; only the next call fails
  bool from_then = false;  // all later ones fail as well
};

// From now on.
void arm(const Fault& fault);
void disarm();
// Once, in the process whose children arm(): it sees what they count.
void share_counts();
// Calls of that kind since the last arm().
uint64_t calls(Call call);

}  // namespace heddle::test
