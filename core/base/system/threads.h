// Threads, as far as the standard does not reach: their stacks, their ends, which is the first, where they run, their
// sleeps.
#pragma once

namespace heddle::os {

// See core/base/thread_stack.h.
void raise_thread_stacks();

bool is_main_thread();

// Whether the calling thread may run on every processor of the machine; false where the system does not say.
bool may_use_all_processors();
// The calling thread, and those that it starts, keep to the `place`-th of so many equal shares of the processors that
// it may use; gives how many these are. Where there are fewer processors than shares nothing is bound, and that is 1;
// where the system binds nothing it is a share's number.
int keep_to_share_of_processors(int place, int shares);

// The calling thread's short sleeps end when they should, where the system would gather wakings otherwise (Linux: those
// of 50 us).
void wake_on_time();

// `last` is called as this thread ends, unless it is the main one. Once for each thread, and with the same function.
// False where there is no memory for that.
bool call_at_thread_end(void (*last)());
// Whether `last` may wait for work of other threads. Not where threads end under a lock of their library: until then no
// other thread begins or ends, those included that a driver or a wait would start.
bool may_wait_at_thread_end();

// `last` is called by exit() before the statics that are there now are destroyed. For systems where exit() destroys the
// main thread's thread_locals after the statics; does nothing where they go first, as the standard wants.
void call_before_statics(void (*last)());

}  // namespace heddle::os
