// Stacks of threads.
//
// Purpose: drivers of CPU devices run kernels on threads of their own, with a kernel's private arrays (a packed panel:
// 256 KiB and more) and their compilers' recursion on the stack. A thread gets what `ulimit -s` says, and a process
// that was started with 256 KiB died of a matrix product.
#pragma once

namespace heddle {

// New threads of the process get stacks of at least 8 MiB, what systems give by default; memory is used as it is
// touched. Larger defaults stay. The first thread, and those that run already, keep theirs. Thread safety: may be
// called from any thread. Without glibc it does nothing.
void raise_thread_stacks();

}  // namespace heddle
