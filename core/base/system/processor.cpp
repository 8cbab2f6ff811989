#include "heddle/core/base/system/processor.h"

namespace heddle::os {

unsigned vector_register_floats() {
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx512f") != 0) return 512;
  return __builtin_cpu_supports("avx") != 0 ? 128 : 64;
#else
  return 128;
#endif
}

}  // namespace heddle::os
