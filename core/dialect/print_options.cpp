#include "heddle/core/dialect/print_options.h"

namespace heddle {

MatrixApi matrix_api(const Caps& caps) {
  if (caps.matrix_units.empty()) return MatrixApi::none;
  if (caps.target == Target::cuda) return MatrixApi::cuda_mma;
  if (caps.target != Target::glsl) return MatrixApi::none;
  return caps.matrix_units.starts_with("KHR: ") ? MatrixApi::glsl_khr : MatrixApi::glsl_nv;
}

PrintOptions print_options(const Caps& caps) {
  // A subgroup size of more than 1 says that lanes can exchange values; OpenCL's compilers say it themselves.
  const bool glsl = caps.target == Target::glsl;
  PrintOptions options{caps.f16_arithmetic, glsl && caps.subgroup_size > 1, caps.int8_dot, matrix_api(caps),
                       glsl && caps.texel_loads};
  options.words8 = glsl && !caps.storage8;
  options.words16 = glsl && !caps.storage16;
  options.words64 = glsl && !caps.i64_arithmetic;
  return options;
}

}  // namespace heddle
