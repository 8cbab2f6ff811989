// Choices of the environment that change results in their last digits. They are read once; part of a plan's key.
// Thread safety: any thread.
#pragma once

namespace heddle {

// HEDDLE_WINOGRAD=0 turns it off: Winograd's transforms triple the rounding error of a direct sum.
bool winograd_wanted();
// HEDDLE_TF32=1 turns it on: f32 operands rounded to 11 bits where matrix units take them.
bool tf32_wanted();

}  // namespace heddle
