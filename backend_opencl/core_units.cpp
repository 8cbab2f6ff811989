#include "heddle/backend_opencl/core_units.h"

#include <cstdlib>
#include <string_view>

#include "heddle/core/base/cache_dir.h"
#include "heddle/core/base/print_error.h"
#include "heddle/core/base/system/processor.h"

namespace heddle::opencl {
namespace {

// Never run. What the section CU_PRODUCT of shaders/prelude.cl asks of the compiler: no kernel where it is too old for
// that, rather than an error, which PoCL counts on the process's stderr (__has_builtin may mean the processor that it
// compiles for). _OPENCL_H_: without the header of all functions.
constexpr const char* probe_options = "-cl-std=CL1.2 -w -D_OPENCL_H_";
constexpr const char* tiles_text = R"(
#if defined(__x86_64__) && defined(__clang__) && __clang_major__ >= 11
__attribute__((target("amx-tile,amx-bf16"))) __kernel void heddle_kernel(__global unsigned int* sums) {
  unsigned int shape[256] __attribute__((aligned(64)));
  for (int i = 0; i < 256; ++i) shape[i] = 0;
  __builtin_ia32_tile_loadconfig((const __private void*)shape);
  __builtin_ia32_tilezero(0);
  __builtin_ia32_tileloadd64(4, (const __private void*)shape, (unsigned long)64);
  __builtin_ia32_tileloadd64(5, (const __private void*)shape, (unsigned long)64);
  __builtin_ia32_tdpbf16ps(0, 4, 5);
  __builtin_ia32_tilestored64(0, (__private void*)shape, (unsigned long)64);
  __builtin_ia32_tilerelease();
  sums[0] = shape[0];
}
#endif
)";
constexpr const char* pairs_text = R"(
#if defined(__x86_64__) && defined(__clang__) && __clang_major__ >= 11
#if __clang_major__ >= 16
typedef __bf16 pairs __attribute__((vector_size(64)));
#else
typedef int pairs __attribute__((vector_size(64)));
#endif
typedef float lanes __attribute__((vector_size(64)));
__attribute__((target("avx512f,avx512bf16"))) __kernel void heddle_kernel(__global lanes* sums, __global pairs* in) {
  sums[0] = __builtin_ia32_dpbf16ps_512(sums[0], in[0], in[1]);
}
#endif
)";

bool wanted() {
  const char* given = std::getenv("HEDDLE_CORE_UNITS");
  const std::string_view value = given ? given : "1";
  if (value != "0" && value != "1")
    print_error("[opencl] HEDDLE_CORE_UNITS is '{}', expected 0 or 1: products of bf16 take what CPUs have\n", value);
  return value != "0";
}

bool builds(cl_platform_id platform, cl_device_id device, const char* source) {
  const cl_context_properties properties[] = {CL_CONTEXT_PLATFORM, reinterpret_cast<cl_context_properties>(platform),
                                              0};
  cl_int status = CL_SUCCESS;
  const cl_context context = cl().CreateContext(properties, 1, &device, nullptr, nullptr, &status);
  if (status != CL_SUCCESS) return false;
  const cl_program program = cl().CreateProgramWithSource(context, 1, &source, nullptr, &status);
  cl_kernel kernel = nullptr;
  if (status == CL_SUCCESS && cl().BuildProgram(program, 1, &device, probe_options, nullptr, nullptr) == CL_SUCCESS)
    kernel = cl().CreateKernel(program, "heddle_kernel", &status);
  const bool built = kernel != nullptr;
  if (kernel) cl().ReleaseKernel(kernel);
  if (program) cl().ReleaseProgram(program);
  cl().ReleaseContext(context);
  return built;
}

// The compiler's answer is kept on disk.
bool takes(cl_platform_id platform, cl_device_id device, uint64_t driver_hash, const char* source) {
  const DiskCache answers("core_units", driver_hash);
  if (const auto kept = answers.load(source); kept && kept->size() == 1) return kept->front() == 1;
  const uint8_t answer = builds(platform, device, source) ? 1 : 0;
  answers.store(source, &answer, 1, "matrix units");
  return answer == 1;
}

}  // namespace

CoreUnits reached_core_units(cl_platform_id platform, cl_device_id device, uint64_t driver_hash) {
  if (!wanted()) return CoreUnits::none;
  if (os::allows_tile_units() && takes(platform, device, driver_hash, tiles_text)) return CoreUnits::tiles;
  if (os::has_pair_dots() && takes(platform, device, driver_hash, pairs_text)) return CoreUnits::pairs;
  return CoreUnits::none;
}

}  // namespace heddle::opencl
