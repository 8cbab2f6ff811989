// A kernel's machine code as a list of instructions, of any vendor, and the loop that it spends its time in.
//
// Purpose: disassemblers give text; the parsers of isa.h keep of each instruction what counts: what it occupies, how
// much of it, and where it branches to. Invariants: targets are indices of the same list. Thread safety: plain values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace heddle::tools::certify {

enum class Unit : uint8_t {
  fma,      // multiply-adds of the lanes
  matrix,   // multiply-adds of a matrix unit
  vector,   // other arithmetic of the lanes
  scalar,   // once for the subgroup, beside the lanes
  shared,   // shared memory
  memory,   // global memory, through the caches
  scratch,  // memory of a lane: spills
  barrier,
  branch,
  none  // waits and hints that occupy nothing else
};

struct Instruction {
  Unit unit = Unit::vector;
  std::string opcode;
  // fma, matrix: multiply-adds of the subgroup; shared, memory: bytes of the subgroup; vector: lanes.
  double amount = 0;
  std::optional<size_t> target;  // branch: the instruction that it may go to; the list's size: its end
};

using Listing = std::vector<Instruction>;

// Instructions from `first` to `last` that a backward branch repeats; what inner loops with multiply-adds repeat is
// theirs.
struct HotLoop {
  size_t first = 0, last = 0;
  std::vector<size_t> instructions;  // indices
  size_t math = 0;                   // of them with Unit::fma or Unit::matrix
  double density() const {
    return instructions.empty() ? 0 : static_cast<double>(math) / static_cast<double>(instructions.size());
  }
};
// The loop with most multiply-adds of its own; none where no loop multiplies.
std::optional<HotLoop> hot_loop(const Listing& listing);

}  // namespace heddle::tools::certify
