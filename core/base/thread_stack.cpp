#include "heddle/core/base/thread_stack.h"

#include "heddle/core/base/system/threads.h"

namespace heddle {

void raise_thread_stacks() { os::raise_thread_stacks(); }

}  // namespace heddle
