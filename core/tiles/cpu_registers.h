// Sums that a CPU core's vector registers hold, for the pickers of tunables whose kernels keep sums in registers.
//
// Purpose: one question for all of them. Kernels multiply one scalar by some vectors at a time, so that beside the sums
// there are those vectors and the scalar; what does not fit is stored and loaded in the innermost loop. Measured on
// AVX-512 (32 registers of 16 floats) and AVX2 (16 of 8) through PoCL 3.1: docs/benchmarks.md. Thread safety: pure.
#pragma once

#include <cstdint>

#include "heddle/core/base/integers.h"
#include "heddle/core/contract/device_info.h"

namespace heddle {

// Registers of 16 floats, 32 of them; else vectors are of 8 floats, and there are 16.
inline bool has_wide_registers(const Caps& caps) { return caps.register_floats >= 512; }

// Floats of a vector that is one register.
inline int64_t register_width(const Caps& caps) { return has_wide_registers(caps) ? 16 : 8; }

// Sums that stay in registers beside what they are made of.
inline int64_t register_sums(const Caps& caps) { return has_wide_registers(caps) ? 28 : 12; }

// What `count` pixels or channels cost in blocks of `block`, each with two vectors of 8: a block takes as long as two
// more would, since fewer than 12 sums wait for each other.
inline int64_t narrow_blocks_cost(int64_t count, int64_t block) { return ceil_div(count, block) * (block + 2); }

}  // namespace heddle
