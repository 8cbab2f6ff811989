// Asks a driver in a child process whether it lives, before this process loads it.
//
// Purpose: a driver that aborts while it is opened (PoCL in a container without /sys), or hangs, takes nobody with it:
// the other backends go on. Method: the program `heddle-probe` (tools/probe), beside the library, opens every device of
// a kind of driver and says so. It is started once per process and kind, and not at all where the disk cache holds an
// earlier success with the same drivers: their files, the variables that steer them and the machine's root are the key.
// A failure is not kept. HEDDLE_PROBE_SECONDS is the time it has (60); 0 does not ask. Invariants: without that
// program, or without a right to start processes, drivers are loaded unasked. Thread safety: any thread.
#pragma once

#include <string>

namespace heddle {

// "opencl" or "vulkan". Empty: it lives, or could not be asked; else what happened, e.g. `the driver died with SIGABRT:
// "Not enough memory"`.
const std::string& driver_fault(const std::string& kind);

}  // namespace heddle
