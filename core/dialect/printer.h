// Printer: KernelSource -> source text of one target (GLSL, OpenCL C, CUDA C++ or C99).
//
// Purpose: a backend's KernelCompiler calls print() and hands the text to its compiler. The text is: target prelude
// (shaders/ prelude.glsl, prelude.cl, prelude.cu, prelude.c99), typed LOAD_/STORE_ macros of the buffers, defines,
// helpers, the kernel's signature and its body. Invariants: the output is a pure function of (source, target, options).
// Thread safety: pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "heddle/core/contract/device.h"
#include "heddle/core/contract/kernel_binary.h"
#include "heddle/core/contract/kernel_source.h"
#include "heddle/core/dialect/print_options.h"

namespace heddle {

// With this define ("1") a kernel's f16 and bf16 elements are ints to it, of their bits: for values that are only
// moved.
inline constexpr const char* half_bits_define = "HALF_BITS";
// With this one, a `let` of a file's header, a lane holds so many values that a subgroup has the fewest lanes
// (PrintOptions::subgroup_lanes).
inline constexpr const char* many_values_define = "MANY_VALUES";
// With this one above 0, a tunable, CUDA's compiler leaves each group so few registers that a compute unit holds so
// many groups.
inline constexpr const char* resident_define = "RESIDENT";

// How the printed GLSL sees the buffers of a kernel.
std::vector<BufferSlot> descriptors(const KernelSource& source, const PrintOptions& options);

// The kernel's entry point is always called "heddle_kernel" ("main" in GLSL).
// Interface the printed text has, which a backend relies on:
//   GLSL:     set 0, binding i = descriptors(source, options)[i]; push constants: constants[i] at byte 4*i;
//             local_size from source.group; GLSL 4.50, SPIR-V 1.3 / Vulkan 1.1 environment or newer.
//   OpenCL C: arguments in order: for each buffer a `__global T*` and a `ulong` byte offset; then each constant (4
//   bytes each). CUDA:     extern "C" __global__ arguments in order: for each buffer a pointer to its first byte; then
//   each constant (4 bytes).
//             Shared arrays of more than static_shared_bytes in all are dynamic: the launch gives shared_bytes(source).
//   C99:      a function of the numbers of groups (three unsigned ints), then a pointer for each buffer, then each
//             constant; it walks over all groups. ValueError with c_refusal() (core/dialect/c_text.h).

std::string print(const KernelSource& source, Target target, const PrintOptions& options = {});

// Kernels of one lane as functions of OpenCL C, for a kernel that runs several (core/run/chains.h). Its helpers are
// part_prologue() and then print_part() of each: a function of the numbers of groups (three uints), then a pointer for
// each buffer, then each constant. The text takes back what it defines.
enum class PartGroups : uint8_t {
  all,   // the function walks over all groups
  taken  // several work groups call it, with two arguments before the others: the words of shaders/prelude.parts, and a
         // number that counts up from call to call; each computes the groups that it takes
};
std::string part_prologue(PartGroups groups = PartGroups::all);
std::string print_part(const KernelSource& source, std::string_view name, PartGroups groups = PartGroups::all);
// Why a kernel cannot be one: "its groups have several lanes"; "" when it can. Barriers of one lane wait for nobody.
std::string part_refusal(const KernelSource& source);
// The define VW that its vectors need, which is one for the whole text; "" where it has none.
std::string part_vector_width(const KernelSource& source);

}  // namespace heddle
