#include "heddle/core/base/thread_stack.h"

#include <gtest/gtest.h>

#include <thread>

#ifdef _WIN32
#include <windows.h>
#else
#include <pthread.h>
#endif

namespace heddle {
namespace {

constexpr size_t mib = size_t{1} << 20;

#ifdef _WIN32
// The program's file says it (cmake/windows.cmake), for the threads of drivers as well.
TEST(ThreadStack, ThreadsHaveWhatTheProgramsFileSays) {
  raise_thread_stacks();
  ULONG_PTR low = 0, high = 0;
  std::thread([&] { GetCurrentThreadStackLimits(&low, &high); }).join();
  EXPECT_GE(high - low, 8 * mib);
}
#else
// The stack size of threads that are made now.
size_t stack_of_a_thread() {
  size_t bytes = 0;
  std::thread([&] {
    pthread_attr_t mine;
    if (pthread_getattr_np(pthread_self(), &mine) != 0) return;
    pthread_attr_getstacksize(&mine, &bytes);
    pthread_attr_destroy(&mine);
  }).join();
  return bytes;
}

void set_default_stack(size_t bytes) {
  pthread_attr_t attributes;
  ASSERT_EQ(pthread_getattr_default_np(&attributes), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, bytes), 0);
  ASSERT_EQ(pthread_setattr_default_np(&attributes), 0);
  pthread_attr_destroy(&attributes);
}

// What a process has that was started under `ulimit -s 256`.
TEST(ThreadStack, SmallDefaultsAreRaisedAndLargeOnesStay) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer's own thread locals do not fit a stack of 256 KiB: no thread begins";
#endif
  const size_t before = stack_of_a_thread();
  set_default_stack(256 << 10);
  ASSERT_LT(stack_of_a_thread(), mib);
  raise_thread_stacks();
  EXPECT_GE(stack_of_a_thread(), 8 * mib);
  set_default_stack(32 * mib);
  raise_thread_stacks();
  EXPECT_GE(stack_of_a_thread(), 32 * mib);
  set_default_stack(before);
}
#endif

}  // namespace
}  // namespace heddle
