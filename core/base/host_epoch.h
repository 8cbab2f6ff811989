// The epoch of the host's state: whether what recorded functions read of the host may have changed since they were
// compared. Thread safety: both functions may be called from any thread.
#pragma once

#include <cstdint>

namespace heddle::trace {

// Changes whenever state of the host that the library owns and recorded functions read (a module's training flag, an
// optimizer's options) does: a function is run and compared again after that.
uint64_t host_epoch();
void host_state_changed();

}  // namespace heddle::trace
