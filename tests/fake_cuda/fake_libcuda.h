// A libcuda.so.1 in host memory, to run the cuda backend's host side on a machine without a GPU.
//
// Purpose: checks what the backend asks of the driver: order, lifetimes, captures, errors, leaks. Work is deferred
// until somebody synchronizes (as on a GPU), every call needs a current context, and every address is checked. Kernels
// run on the executor of PTX (tests/ptx), whose faults are the error 1001, "PTX_FAULT", with the executor's text.
// Thread safety: one call at a time works, others wait for it.
#pragma once

extern "C" {
// The next call of that symbol returns `code` instead of doing anything.
void fake_cuda_fail_next(const char* symbol, int code);
// Number of live objects: "memory", "host", "event", "module", "graph", "exec", "stream", "context".
int fake_cuda_live(const char* kind);
// Number of calls of a symbol so far.
int fake_cuda_calls(const char* symbol);
// Forgets a sticky error, as a new process would.
void fake_cuda_revive();
}
