// Keeps kernels' machine code loaded where the driver unloads it.
//
// PoCL holds the shared objects of at most 128 kernels open. From release 4 on it closes the one that was used longest
// ago, so that a step of more kernels maps all of them anew each time: a replayed step of 200 kernels took 1.3 ms of
// host time on PoCL 6.0, 0.9 with what follows (0.7 on 3.1, which closes none). Invariant: an object that was held
// stays loaded until the process ends. Thread safety: safe.
#pragma once

#include <cstddef>

namespace heddle::opencl {

// How many shared objects of kernels such a driver holds open.
constexpr size_t kernels_kept_by_driver = 128;

// Whether some shared object was unloaded since the last call of hold_loaded_kernels(), or since the process began.
// Takes a microsecond.
bool kernels_were_unloaded();
// Holds all kernels that are loaded now.
void hold_loaded_kernels();

}  // namespace heddle::opencl
