// What of the processor a process must ask for before it may use it. Thread safety: may be called from any thread.
#pragma once

namespace heddle::os {

// Whether this process may use the processor's units for tiles of bf16 (x86's AMX), which Linux allows who asks. The
// system is asked once, for all threads. From then on a signal's frame may hold 8 KiB more, so Linux refuses stacks for
// signals (sigaltstack) that are too small for it, and says no here where a thread has such a stack already.
bool allows_tile_units();

// Whether vectors of the processor multiply and add pairs of bf16 (x86's AVX512-BF16), and the system keeps them.
bool has_pair_dots();

}  // namespace heddle::os
