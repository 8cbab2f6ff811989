// The open devices of the process: device() and its kind (core/device/context.h), and what is done with all of them
// when it ends. Thread safety: any thread.
#pragma once

#include <functional>

namespace heddle {

// Lets everything that was submitted finish (core/device/ending.h); also runs at exit, before the drivers' own
// handlers, which were registered when they were loaded.
void drain_devices();
// Calls done() while no thread is inside a device: no thread enters a second one from within a first.
void while_devices_idle(const std::function<void()>& done);

}  // namespace heddle
