// Threads, as far as the standard does not reach: their stacks, their ends, which is the first.
#pragma once

namespace heddle::os {

// See core/base/thread_stack.h.
void raise_thread_stacks();

bool is_main_thread();

// `last` is called as this thread ends, unless it is the main one. Once for each thread, and with the same function.
// False where there is no memory for that.
bool call_at_thread_end(void (*last)());

}  // namespace heddle::os
