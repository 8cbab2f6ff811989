// 64-bit integers for devices without them (Caps::i64_arithmetic): SPIR-V whose 64-bit integers are pairs of 32-bit
// words.
//
// Purpose: kernels are written once, with I64; this turns the compiled module into one that needs no capability Int64.
// A 64-bit integer becomes a uvec2, low word first, which lies in memory as the integer did; addition, subtraction,
// multiplication, negation, comparisons, shifts and conversions become their 32-bit steps. All are exact, and a
// conversion to a float rounds once.
// Invariants: a pure function; a module without 64-bit integers stays as it is. Division has no steps here: the prelude
// spells IDIV and IMOD without it (HK_I64_WORDS, shaders/prelude.shared). Thread safety: any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace heddle {

// `words`: SPIR-V 1.3 as compile_glsl makes it; `name`: of the kernel, for errors. Throws CompileError for an
// instruction on 64-bit integers that is not among the above (`/` and `%` in a user's kernel).
std::vector<uint32_t> int64_by_words(const std::vector<uint32_t>& words, const std::string& name);

}  // namespace heddle
