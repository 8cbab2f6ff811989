#include "heddle/core/dialect/print_options.h"

#include "heddle/core/contract/vendors.h"

namespace heddle {

MatrixApi matrix_api(const Caps& caps) {
  if (caps.matrix_units.empty()) return MatrixApi::none;
  if (caps.target == Target::cuda) return MatrixApi::cuda_mma;
  if (caps.target != Target::glsl) return MatrixApi::none;
  return caps.matrix_units.starts_with("KHR: ") ? MatrixApi::glsl_khr : MatrixApi::glsl_nv;
}

CoreUnits core_units(const Caps& caps) {
  if (caps.machine() != Machine::cpu_loops) return CoreUnits::none;
  const auto has = [&](std::string_view units) { return caps.matrix_units.find(units) != std::string::npos; };
  return has(core_tiles_bf16) ? CoreUnits::tiles : has(core_pairs_bf16) ? CoreUnits::pairs : CoreUnits::none;
}

namespace {

// Intel's GPUs whose subgroups have 16 or 32 lanes (registers of 64 bytes): the compiler takes 32, with which a lane
// holds 64 values; kernels of tiles need more and spill, or keep their arrays in memory (docs/certificates.md).
bool takes_too_many_lanes(const Caps& caps) {
  return caps.target == Target::opencl && caps.machine() == Machine::simt && caps.vendor_id == vendors::intel &&
         caps.subgroup_size >= 16;
}

// lavapipe's LLVM for 64-bit ARM, which compiles for the processor that this program runs on.
bool dies_of_halves(const Caps& caps) {
#ifdef __aarch64__
  constexpr uint32_t mesa = 0x10005;
  return caps.target == Target::glsl && caps.device_class == DeviceClass::cpu && caps.vendor_id == mesa;
#else
  (void)caps;
  return false;
#endif
}

}  // namespace

PrintOptions print_options(const Caps& caps) {
  // A subgroup size of more than 1 says that lanes can exchange values; OpenCL's compilers say it themselves.
  const bool glsl = caps.target == Target::glsl;
  PrintOptions options{caps.f16_arithmetic, glsl && caps.subgroup_size > 1, caps.int8_dot, matrix_api(caps),
                       glsl && caps.texel_loads};
  options.words8 = glsl && !caps.storage8;
  options.words16 = glsl && !caps.storage16;
  options.words64 = glsl && !caps.i64_arithmetic;
  options.halves_by_integers = dies_of_halves(caps);
  options.core_units = core_units(caps);
  if (takes_too_many_lanes(caps)) options.subgroup_lanes = caps.subgroup_size;
  return options;
}

}  // namespace heddle
