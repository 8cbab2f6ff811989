#include <pthread.h>

#include <algorithm>
#include <cstdlib>

#include "heddle/core/base/system/threads.h"
#include "heddle/core/base/system/windows_text.h"

namespace heddle::os {
namespace {

// The library, or the program that it is part of, is loaded by the main thread.
const DWORD main_thread = GetCurrentThreadId();

pthread_key_t end_of_thread;
bool end_is_noticed = false;
// MinGW keeps a thread's thread_locals behind a key of its own, made at their first use in the process, and serves the
// keys in the order in which they were made: this one first, while the thread still has its thread_locals. (Windows'
// own notice, FlsAlloc, comes after all keys.) 101: before any other constructor.
[[gnu::constructor(101)]] void notice_ends_of_threads() {
  end_is_noticed = ::pthread_key_create(&end_of_thread, [](void* last) { reinterpret_cast<void (*)()>(last)(); }) == 0;
}

}  // namespace

// A program's file says how large stacks are (cmake/windows.cmake).
void raise_thread_stacks() {}

// Also before that was written: nothing else runs then.
bool is_main_thread() { return main_thread == 0 || GetCurrentThreadId() == main_thread; }

bool may_use_all_processors() { return false; }
void wake_on_time() {}

int keep_to_share_of_processors(int, int shares) {
  return std::max(1, static_cast<int>(GetActiveProcessorCount(ALL_PROCESSOR_GROUPS)) / shares);
}

bool call_at_thread_end(void (*last)()) {
  return end_is_noticed && ::pthread_setspecific(end_of_thread, reinterpret_cast<void*>(last)) == 0;
}

// MinGW's library calls the keys' functions under the lock that beginning threads take first.
bool may_wait_at_thread_end() { return false; }

void call_before_statics(void (*last)()) { std::atexit(last); }

}  // namespace heddle::os
