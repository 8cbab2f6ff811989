// What of the processor a process must ask for before it may use it. Thread safety: may be called from any thread.
#pragma once

namespace heddle::os {

// Whether this process may use the processor's units for tiles of bf16 (x86's AMX), which Linux allows who asks. The
// system is asked once, for all threads. From then on a signal's frame may hold 8 KiB more, so Linux refuses stacks for
// signals (sigaltstack) that are too small for it, and says no here where a thread has such a stack already.
bool allows_tile_units();

// Floats that the vector registers of a core hold together: 512 (32 of 16: AVX-512), 128 (16 of 8: AVX2; 32 of 4: NEON)
// or 64 (16 of 4: SSE). What compilers for this processor make of wider vectors takes several registers each.
unsigned vector_register_floats();

// Whether vectors of the processor multiply and add pairs of bf16 (x86's AVX512-BF16), and the system keeps them.
bool has_pair_dots();

}  // namespace heddle::os
