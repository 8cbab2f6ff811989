#include "heddle/core/contract/quirks.h"

#include <fmt/format.h>

#include <cctype>
#include <charconv>

namespace heddle {
namespace {

constexpr std::string_view pocl = "Portable Computing Language", rusticl = "rusticl", intel = "Intel(R) OpenCL",
                           lavapipe = "llvmpipe Mesa", oclgrind = "Oclgrind Oclgrind",
                           swiftshader = "SwiftShader driver";

constexpr QuirkRow table[] = {
    {.quirk = Quirk::lanes_are_loops,
     .name = "lanes-are-loops",
     .backend = "opencl",
     .driver = pocl,
     .what = "One core runs the work items of a group one after the other, in loops that the driver writes.",
     .act = "Kernels have one work item a group and write loops and vectors themselves (Machine::cpu_loops).",
     .test = "QuirkTable.DecidesTheMachineOfCpuDrivers"},
    {.quirk = Quirk::lanes_are_loops,
     .name = "lanes-are-loops",
     .backend = "opencl",
     .driver = intel,
     .what = "As PoCL; with one work item a group the matrix product runs as fast as PoCL's.",
     .act = "Machine::cpu_loops.",
     .test = "QuirkTable.DecidesTheMachineOfCpuDrivers"},
    {.quirk = Quirk::lanes_are_vectors,
     .name = "lanes-are-vectors",
     .backend = "opencl",
     .driver = rusticl,
     .device = "llvmpipe",
     .what = "Work items run in the lanes of vector registers. It compiles kernels of one work item with loops and "
             "vectors of their own for minutes.",
     .act = "Kernels get the tiles of lavapipe, which is the same code generator (Machine::cpu_lanes). CPU drivers of "
            "OpenCL that have no row get them too: they are quick to compile everywhere.",
     .test = "QuirkTable.DecidesTheMachineOfCpuDrivers"},
    {.quirk = Quirk::computes_wrong,
     .name = "computes-wrong",
     .backend = "opencl",
     .driver = rusticl,
     .device = "llvmpipe",
     .what =
         "With lavapipe's tiles it trained mnist-mlp as PoCL does, and then evaluated the same weights to 0.11 instead "
         "of 0.21 (22.3.6, once). Not seen again: after 20, 60 and 200 steps evaluations are PoCL's, 54 products of up "
         "to 1000x2000x128 are exact. But argmax and argmin of rows of 98304 elements and more are wrong. The cause is "
         "not known; 25.0.7 was not tried since.",
     .act =
         "The device is refused by name; HEDDLE_REFUSED_DRIVERS=1 opens it for whoever looks for the cause. lavapipe "
         "runs on the same machines.",
     .test = "LongReduction.RowsOfAnyLength"},
    {.quirk = Quirk::loops_end_early,
     .name = "loops-end-early",
     .backend = "vulkan",
     .driver = lavapipe,
     .what = "Counts the iterations of all loops of a work item and leaves them in silence after 65535.",
     .act = "Long reductions are split (Caps::max_loop_iterations).",
     .test = "LongReduction.RowsOfAnyLength"},
    {.quirk = Quirk::loops_end_early,
     .name = "loops-end-early",
     .backend = "opencl",
     .driver = rusticl,
     .device = "llvmpipe",
     .what = "As lavapipe.",
     .act = "As for lavapipe.",
     .test = "LongReduction.RowsOfAnyLength"},
    {.quirk = Quirk::loops_compile_slowly,
     .name = "loops-compile-slowly",
     .backend = "vulkan",
     .driver = swiftshader,
     .what = "Compiles a long straight line of code inside of a loop for minutes, and outside of one in a second.",
     .act = "A reduction takes the operations before it into its kernel only while its loop stays short "
            "(Caps::max_loop_ops).",
     .test = "Distributions.GammaAndWhatIsMadeOfIt"},
    {.quirk = Quirk::texels_beat_buffers,
     .name = "texels-beat-buffers",
     .backend = "vulkan",
     .driver = lavapipe,
     .what =
         "A load from a storage buffer is a loop over the lanes with a bounds check each; a texel fetch of all lanes "
         "is a few vector instructions.",
     .act = "Kernels read through texel buffers (Caps::texel_loads; HEDDLE_TEXELS=none, uniform or storage forces it).",
     .test = "heddle bench matmul --cases 512x512x512 --device vulkan:0, and that with HEDDLE_TEXELS=none"},
    {.quirk = Quirk::units_not_counted,
     .name = "units-not-counted",
     .backend = "opencl",
     .driver = rusticl,
     .device = "llvmpipe",
     .what = "CL_DEVICE_MAX_COMPUTE_UNITS is 8 whatever the machine.",
     .act = "The threads of the machine are counted.",
     .test = "DeviceContract.CapsAreSane"},
    {.quirk = Quirk::runs_at_once,
     .name = "runs-at-once",
     .backend = "opencl",
     .driver = pocl,
     .device = "basic",
     .what = "POCL_DEVICES=basic runs a command while it is enqueued or waited for.",
     .act = "Caps::async is false, so nothing waits for work that would go on beside the host.",
     .test = "Async.EvaluationReturnsBeforeTheWorkIsDone"},
    {.quirk = Quirk::runs_at_once,
     .name = "runs-at-once",
     .backend = "opencl",
     .driver = pocl,
     .device = "cpu-minimal",
     .what = "The same device under its newer name (6.0).",
     .act = "As there.",
     .test = "Async.EvaluationReturnsBeforeTheWorkIsDone"},
    {.quirk = Quirk::group_size_wrong,
     .name = "group-size-wrong",
     .backend = "opencl",
     .driver = rusticl,
     .device = "llvmpipe",
     .what = "CL_KERNEL_WORK_GROUP_SIZE is 32 for every kernel, also for one that asks for 256 work items and runs.",
     .act = "The device's limit counts, not the kernel's.",
     .test = "DeviceContract.CommandsActAsIfOneAfterTheOther"},
    {.quirk = Quirk::group_size_wrong,
     .name = "group-size-wrong",
     .backend = "opencl",
     .driver = "NVIDIA CUDA",
     .what = "CL_KERNEL_WORK_GROUP_SIZE is 256 for a kernel that asks for 1,024 work items.",
     .act = "The device's limit counts, not the kernel's.",
     .test = "Movement.TransposesOfOddSizes"},
    {.quirk = Quirk::times_out_of_order,
     .name = "times-out-of-order",
     .backend = "opencl",
     .driver = rusticl,
     .what =
         "A command's profiled start may lie a nanosecond before the end of the one before it, or after its own end.",
     .act = "Times of a recording are put in order.",
     .test = "DeviceContract.TimedRecordingReportsEachCommand"},
    {.quirk = Quirk::caches_binaries,
     .name = "caches-binaries",
     .backend = "opencl",
     .driver = pocl,
     .what =
         "Keeps machine code in a cache of its own, and compiles one more variant of a kernel when it is asked for a "
         "program's binary.",
     .act = "Heddle keeps no binaries of it (HEDDLE_OPENCL_BINARIES=1 does).",
     .test = "OpenCl.BinariesOnDiskAreUsedAndDamagedOnesAreNot"},
    {.quirk = Quirk::compiles_one_by_one,
     .name = "compiles-one-by-one",
     .backend = "opencl",
     .driver = pocl,
     .what = "Holds one lock for all its compilers, also across contexts.",
     .act = "One thread builds the programs of a plan.",
     .test = "heddle train mnist-mlp --limit-steps 1 --device opencl:0, with a new POCL_CACHE_DIR"},
    {.quirk = Quirk::compiles_one_by_one,
     .name = "compiles-one-by-one",
     .backend = "opencl",
     .driver = oclgrind,
     .what =
         "One LLVM context for all its programs: two threads that build, or one that builds while another asks for a "
         "binary, end the process.",
     .act = "One thread builds the programs of a plan.",
     .test = "UserKernels.Fuses"},
    {.quirk = Quirk::reads_whole_header,
     .name = "reads-whole-header",
     .backend = "opencl",
     .driver = pocl,
     .what = "Reads clang's header of all functions for every program: 100 ms of the 165 of a small kernel.",
     .act = "Programs bring the declarations of shaders/prelude.pocl; what those lack is built with the whole header.",
     .test = "OpenCl.FunctionsThatTheDialectLacksCompile"},
    {.quirk = Quirk::sinks_instructions,
     .name = "sinks-instructions",
     .backend = "opencl",
     .driver = pocl,
     .from = {6},
     .below = {7},
     .what =
         "Ends the process where one round of LLVM's instcombine was not enough: \"did not reach a fixpoint after 1 "
         "iterations\".",
     .act = "LLVM 18 is told not to sink instructions (backend_opencl/pocl_llvm.h).",
     .test = "AttentionTest.GradientLadder"},
    {.quirk = Quirk::unswitches_vectors,
     .name = "unswitches-vectors",
     .backend = "opencl",
     .driver = pocl,
     .from = {6},
     .below = {7},
     .what = "Leaves an instruction in vectorised loops that AVX-512 refuses: a gather of no lane, without addresses.",
     .act = "LLVM 18 is told not to unswitch loops (backend_opencl/pocl_llvm.h).",
     .test = "LinearCrossEntropyTest.IsCrossEntropyOfTheLogits"},
    {.quirk = Quirk::unloads_kernels,
     .name = "unloads-kernels",
     .backend = "opencl",
     .driver = pocl,
     .from = {4},
     .what =
         "Holds the machine code of 128 kernels and maps others anew each time: 1.3 ms a replayed step of 200 kernels "
         "instead of 0.9.",
     .act = "Heddle holds the shared objects (backend_opencl/loaded_kernels.h).",
     .test = "LoadedKernels.StayLoadedWhenTheDriverClosesThem"},
    {.quirk = Quirk::wakes_threads,
     .name = "wakes-threads",
     .backend = "opencl",
     .driver = pocl,
     .what = "Each launch is handed to threads that sleep: 5 us until it begins, where many kernels take 2.",
     .act = "Small launches that follow each other in a graph that is run again and again are one kernel of one work "
            "group (core/run/chains.h).",
     .test = "Chains.ALinkReadsWhatTheLinkBeforeWrote"},
    {.quirk = Quirk::contracts_freely,
     .name = "contracts-freely",
     .backend = "opencl",
     .driver = intel,
     .what =
         "Makes one rounding of a product and a sum in one kernel and two in another, so that the same function inside "
         "and outside of compile() differs in its last bit.",
     .act = "Kernels are built with FP_CONTRACT OFF (HK_NO_CONTRACTION); what is fused says so.",
     .test = "ControlFlow.InsideCompileAndCheckpoint"},
    {.quirk = Quirk::contracts_freely,
     .name = "adds-in-any-order",
     .backend = "opencl",
     .driver = intel,
     .what =
         "Vectorises the sum of floats in a loop as if addition were associative, in one kernel and not in another, "
         "so that the same sum differs in its last bits. No build option and no pragma of numbers turns it off.",
     .act = "Loops that add to one float say so (IN_ORDER), and are not vectorised there.",
     .test = "ControlFlow.InsideCompileAndCheckpoint"},
    {.quirk = Quirk::everywhere,
     .name = "dies-of-marked-loops",
     .backend = "opencl",
     .driver = intel,
     .what = "The process ends (signal 11) in its vectoriser on some loops marked with clang's "
             "vectorize(assume_safety), as those of tan and lgamma.",
     .act = "Loops are marked where clang compiles for the CPU itself, not where it makes SPIR-V (VLOOP in "
            "shaders/prelude.cl).",
     .test = "heddle doctor --only tan,lgamma"},
    {.quirk = Quirk::everywhere,
     .name = "dies-of-prefetches",
     .backend = "opencl",
     .driver = rusticl,
     .what = "The process ends in the translator to SPIR-V on __builtin_prefetch.",
     .act = "As for marked loops (WILL_READ in shaders/prelude.cl).",
     .test = "heddle doctor --only matmul"},
    {.quirk = Quirk::everywhere,
     .name = "macros-of-the-compiler",
     .backend = "opencl",
     .driver = oclgrind,
     .what = "cl_khr_subgroup_shuffle is defined because clang knows it; the device does not have it.",
     .act = "Kernels use subgroups where the device's extensions name them (HK_HAS_SUBGROUPS).",
     .test = "MatmulGpuTest.GroupReductions"},
    {.quirk = Quirk::everywhere,
     .name = "knows-no-halves",
     .backend = "opencl",
     .driver = oclgrind,
     .what = "Ends a work item at a conversion from or to half that clang makes of its own builtins.",
     .act = "Kernels call vload_half and vstore_half where clang does not compile for the CPU itself (HK_LOAD_f16).",
     .test = "CopyTest.EveryType"},
    {.quirk = Quirk::everywhere,
     .name = "knows-no-absolute-value",
     .backend = "opencl",
     .driver = oclgrind,
     .what = "Refuses a kernel in which clang made llvm.abs of a choice between an integer and its negative.",
     .act = "Kernels call OpenCL's abs where clang does not compile for the CPU itself.",
     .test = "MathTest.Integers"},
    {.quirk = Quirk::everywhere,
     .name = "names-lines-of-the-whole",
     .backend = "opencl",
     .driver = oclgrind,
     .what = "The compiler's messages ignore #line: they name lines of the whole program.",
     .act = "The log is read by the program's own #line directives (backend_opencl/build_log.h).",
     .test = "HarnessTest.CompileErrorsNameTheLine"},
    {.quirk = Quirk::everywhere,
     .name = "takes-the-wrong-case",
     .backend = "opencl",
     .driver = oclgrind,
     .what = "Oclgrind 21.10: a choice among four words by comparisons with 0, 1 and 2, which clang makes a switch of "
             "where the function is inlined, gives another of the words: 30 of 64 random numbers were wrong.",
     .act = "The word is chosen by bits (shaders/attention_scores.hki).",
     .test = "AttentionTest.ForwardLadder"},
    {.quirk = Quirk::everywhere,
     .name = "dies-of-halves",
     .backend = "vulkan",
     .driver = lavapipe,
     .what =
         "On 64-bit ARM (22.3.6 with LLVM 15) the process ends while code is made for many kernels that read halves: "
         "\"Cannot select: v4f32 = truncate\", or signal 11.",
     .act = "There f16 is made f32 by integers (PrintOptions::halves_by_integers). Other versions were not tried.",
     .test = "Casts.OutOfRangeAndNaN"},
    {.quirk = Quirk::everywhere,
     .name = "zero-divisors",
     .backend = "vulkan",
     .driver = lavapipe,
     .what = "Stores garbage for a division by a literal zero, and takes x * 0, x - x and x / x to be constants.",
     .act = "Kernels multiply by infinity instead, and such values are computed precisely.",
     .test = "StepTest.DivisionByALiteralZero"},
};

bool begins(std::string_view text, std::string_view with) { return text.starts_with(with); }

bool follows_digit(std::string_view text, size_t at) {
  return at < text.size() && std::isdigit(static_cast<unsigned char>(text[at])) != 0;
}

// "6", "22.3", "22.3.6": without the zeros at the end.
std::string text_of(const DriverVersion& v) {
  std::string text = fmt::format("{}", v[0]);
  if (v[1] != 0 || v[2] != 0) text += fmt::format(".{}", v[1]);
  if (v[2] != 0) text += fmt::format(".{}", v[2]);
  return text;
}

}  // namespace

std::span<const QuirkRow> quirk_table() { return table; }

DriverVersion version_after(std::string_view driver, std::string_view product) {
  DriverVersion version{};
  if (!begins(driver, product)) return version;
  size_t at = product.size();
  while (at < driver.size() && driver[at] == ' ') ++at;
  for (int& number : version) {
    if (!follows_digit(driver, at)) break;
    const auto end = std::from_chars(driver.data() + at, driver.data() + driver.size(), number).ptr;
    at = static_cast<size_t>(end - driver.data());
    if (at >= driver.size() || driver[at] != '.') break;
    ++at;
  }
  return version;
}

bool applies(const QuirkRow& row, const DeviceInfo& info) {
  if (!row.backend.empty() && row.backend != info.backend) return false;
  if (!begins(info.driver, row.driver) || !begins(info.name, row.device)) return false;
  // "Intel(R) OpenCL" is the CPU's driver, "Intel(R) OpenCL Graphics" is not: a version follows, or nothing.
  if (!row.driver.empty() && info.driver.size() > row.driver.size() &&
      !(info.driver[row.driver.size()] == ' ' && follows_digit(info.driver, row.driver.size() + 1)))
    return false;
  const DriverVersion version = version_after(info.driver, row.driver), none{};
  return version >= row.from && (row.below == none || version < row.below);
}

std::string versions_text(const QuirkRow& row) {
  const DriverVersion none{};
  if (row.from == none && row.below == none) return "all";
  if (row.below == none) return fmt::format("from {}", text_of(row.from));
  if (row.from == none) return fmt::format("before {}", text_of(row.below));
  return fmt::format("from {}, before {}", text_of(row.from), text_of(row.below));
}

Quirks::Quirks(const DeviceInfo& info) {
  for (const QuirkRow& row : quirk_table()) {
    if (applies(row, info)) bits_ |= 1u << static_cast<unsigned>(row.quirk);
  }
}

}  // namespace heddle
