// A kernel, decoded: what a block runs.
//
// Purpose: one `Op` per instruction, with a function that works on all active lanes and the places of its operands.
// Every operand is an array over lanes, immediates and special registers too, so that no function looks at kinds of
// operands. A lane's registers lie one array behind the other: an operand is the sum of the bytes per lane before it,
// to be multiplied by the number of lanes.
// Thread safety: immutable once decoded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/ptx/module.h"

namespace heddle::ptx {

class Block;
struct Op;
using Run = void (*)(Block&, const Op&);

// What the scheduler does with an instruction.
enum class Control : uint8_t { none, branch, branch_table, exit, call, ret, barrier, warp, warpgroup };

struct Op {
  Run run = nullptr;
  const uint32_t* operands = nullptr;  // bytes per lane in front of each
  int64_t immediate = 0;               // an address's offset, a count, a mode: what `run` says
  int32_t predicate = -1;              // bytes per lane in front of it
  bool negated = false;
  Control control = Control::none;
  uint8_t count = 0;     // parts of a vector
  uint8_t rounding = 0;  // a Rounding
  int32_t target = 0;    // branch, call: an index; branch_table: which one
  int32_t mask = -1;     // warp: operand that names the lanes, or all
};

struct CopyAtCall {
  uint64_t from, to, bytes;  // in a lane's frame
};
struct CallSite {
  std::vector<CopyAtCall> arguments, results;
};

// A value that is the same at every instruction: an immediate or a special register.
struct Constant {
  uint32_t place;  // bytes per lane in front of it
  uint8_t bytes;
  uint64_t bits;
};
enum class Special : uint8_t {
  tid_x,
  tid_y,
  tid_z,
  ntid_x,
  ntid_y,
  ntid_z,
  ctaid_x,
  ctaid_y,
  ctaid_z,
  nctaid_x,
  nctaid_y,
  nctaid_z,
  laneid,
  warpid,
  nwarpid,
  lanemask_eq,
  lanemask_lt,
  lanemask_le,
  lanemask_gt,
  lanemask_ge,
  count
};
struct SpecialUse {
  Special which;
  uint32_t place;
};

struct Where {
  int line = 0;  // of the PTX
  Location location;
};

struct Program {
  std::string name;
  std::shared_ptr<const Module> module;
  std::vector<Op> code;
  std::vector<Where> where;
  std::vector<std::unique_ptr<uint32_t[]>> operand_lists;
  std::vector<Constant> constants;
  std::vector<SpecialUse> specials;
  std::vector<CallSite> calls;
  std::vector<std::vector<int32_t>> tables;
  std::vector<const Variable*> parameters;
  uint64_t parameter_bytes = 0;
  uint64_t lane_bytes = 0;  // registers and constants of a lane
  uint64_t frame_bytes = 0;
  uint64_t shared_bytes = 0;  // static ones
  uint32_t max_lanes = 0;
  uint32_t carry = 0;  // place of the carry flag
  int32_t entry = 0;
};

// Where generic addresses of shared and local memory begin; those of global memory are the host's.
constexpr uint64_t shared_window = 0x0100'0000'0000'0000;
constexpr uint64_t local_window = 0x0200'0000'0000'0000;
constexpr uint64_t window_mask = 0xff00'0000'0000'0000;

// The kernel `name` of the module. `globals` is where the module's global variables lie. Throws PtxError.
Program decode(std::shared_ptr<const Module> module, const std::string& name, const std::byte* globals);

}  // namespace heddle::ptx
