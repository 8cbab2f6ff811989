#include "heddle/core/base/system/threads.h"
#include "heddle/core/base/system/windows_text.h"

namespace heddle::os {
namespace {

// The library, or the program that it is part of, is loaded by the main thread.
const DWORD main_thread = GetCurrentThreadId();

}  // namespace

// A program's file says how large stacks are (cmake/windows.cmake).
void raise_thread_stacks() {}

// Also before that was written: nothing else runs then.
bool is_main_thread() { return main_thread == 0 || GetCurrentThreadId() == main_thread; }

bool call_at_thread_end(void (*last)()) {
  static const DWORD slot = FlsAlloc([](void* function) { reinterpret_cast<void (*)()>(function)(); });
  return slot != FLS_OUT_OF_INDEXES && FlsSetValue(slot, reinterpret_cast<void*>(last));
}

}  // namespace heddle::os
