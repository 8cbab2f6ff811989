// PrintOptions: what of a device changes the printed text of a kernel (core/dialect/printer.h). Thread safety: plain
// values, pure functions.
#pragma once

#include <cstdint>
#include <string_view>

#include "heddle/core/contract/device_info.h"

namespace heddle {

// How kernels of a target reach matrix units (MMA macros of the dialect); `none`: they are emulated.
enum class MatrixApi : uint8_t { none, cuda_mma, glsl_nv, glsl_khr };
// Caps::matrix_units lists shapes, operands and sums, "16x16x16 f16 f32; 16x16x32 i8 i32"; on Vulkan after the
// extension, "KHR: " or "NV: ".
MatrixApi matrix_api(const Caps& caps);
// In Caps::matrix_units: a core of a CPU multiplies 16 x 32 by 32 x 16 elements (x86's AMX), or a vector of 16 lanes
// two neighbours along k each (AVX512-BF16).
constexpr std::string_view core_tiles_bf16 = "16x16x32 bf16 f32";
constexpr std::string_view core_pairs_bf16 = "1x16x2 bf16 f32";
// What of a CPU's core multiplies bf16 (CU macros); `none`: they are emulated.
enum class CoreUnits : uint8_t { none, pairs, tiles };
CoreUnits core_units(const Caps& caps);

// What of Caps changes the text; the defaults suit every device.
struct PrintOptions {
  bool f16_arithmetic = false;
  bool subgroup_shuffle = false;
  bool int8_dot = false;
  MatrixApi matrix = MatrixApi::none;
  bool texel_loads = false;
  bool texel_images =
      false;  // with texel_loads: storage texel buffers, read by imageLoad; else uniform ones, by texelFetch
  // GLSL: elements of one byte, of two, and 64-bit integers lie in 32-bit words (Caps::storage8, storage16,
  // i64_arithmetic).
  bool words8 = false;
  bool words16 = false;
  bool words64 = false;
  bool halves_by_integers = false;  // GLSL: no unpackHalf2x16
  // OpenCL: lanes of a subgroup for kernels that say MANY_VALUES (core/dialect/printer.h); 0: as the compiler likes.
  uint32_t subgroup_lanes = 0;
  CoreUnits core_units = CoreUnits::none;
};
PrintOptions print_options(const Caps& caps);

}  // namespace heddle
