// What a driver is asked to leave as it is written, in f32 arithmetic.
//
// Purpose: a driver may take `x < 0 ? 0 : x` for max(x, 0), which loses a NaN, and may round a product and a sum once
// in one kernel and twice in another, so that a resumed run would differ in its last bit (NVIDIA's does both). Kernels
// say FMA where they mean it. Both requests are added when a module is loaded, so that a kernel on disk needs no
// capability that another device may lack. Invariants: pure functions; everything else in the module stays as it is.
// Thread safety: any thread.
#pragma once

#include <cstdint>
#include <vector>

namespace heddle::vulkan {

// Both take SPIR-V of one entry point, as compile_glsl makes it. A module that is damaged comes back as it is: the
// driver and the validation layer speak of it.

// NaN, infinities and the sign of zero are kept (SPV_KHR_float_controls, execution mode SignedZeroInfNanPreserve).
std::vector<uint32_t> preserve_nan(const std::vector<uint32_t>& module);
// No sum takes a product in without rounding it (the decoration NoContraction of every sum, difference and product).
std::vector<uint32_t> forbid_contraction(const std::vector<uint32_t>& module);

}  // namespace heddle::vulkan
