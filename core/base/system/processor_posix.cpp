#include "heddle/core/base/system/processor.h"

#if defined(__linux__) && defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace heddle::os {

#if defined(__linux__) && defined(__x86_64__)
bool allows_tile_units() {
  // Intel's Architecture Instruction Set Extensions, chapter 1: AMX-BF16 and AMX-TILE are bits 22 and 24 of EDX of leaf
  // 7; the state of tiles is component 18. Linux, Documentation/arch/x86/xstate.rst: ARCH_REQ_XCOMP_PERM.
  constexpr unsigned needed = 1u << 22 | 1u << 24;
  constexpr long request_permission = 0x1023, tile_data = 18;
  static const bool allowed = [] {
    unsigned a = 0, b = 0, c = 0, d = 0;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (d & needed) == needed &&
           ::syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
  }();
  return allowed;
}

bool has_pair_dots() {
  // The same, AVX512_BF16: bit 5 of EAX of leaf 7, subleaf 1. The compiler's function also asks for the registers.
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __builtin_cpu_supports("avx512f") != 0 && __get_cpuid_count(7, 1, &a, &b, &c, &d) != 0 && (a & 1u << 5) != 0;
}
#else
bool allows_tile_units() { return false; }
bool has_pair_dots() { return false; }
#endif

}  // namespace heddle::os
