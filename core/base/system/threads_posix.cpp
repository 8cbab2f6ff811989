#include <pthread.h>
#include <sched.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

#include <cstddef>

#include "heddle/core/base/system/threads.h"

namespace heddle::os {

void raise_thread_stacks() {
#ifdef __GLIBC__
  constexpr size_t least = size_t{8} << 20;
  pthread_attr_t attributes;
  if (pthread_getattr_default_np(&attributes) != 0) return;
  size_t bytes = 0;
  if (pthread_attr_getstacksize(&attributes, &bytes) == 0 && bytes < least &&
      pthread_attr_setstacksize(&attributes, least) == 0) {
    pthread_setattr_default_np(&attributes);
  }
  pthread_attr_destroy(&attributes);
#endif
}

bool is_main_thread() { return ::getpid() == ::gettid(); }

bool may_use_all_processors() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  return ::sched_getaffinity(0, sizeof allowed, &allowed) == 0 &&
         CPU_COUNT(&allowed) == ::sysconf(_SC_NPROCESSORS_ONLN);
}

int keep_to_share_of_processors(int place, int shares) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0) return 1;
  const int share = CPU_COUNT(&allowed) / shares;
  if (share == 0) return 1;
  cpu_set_t own;
  CPU_ZERO(&own);
  int seen = 0;
  for (int processor = 0; processor < CPU_SETSIZE; ++processor) {
    if (!CPU_ISSET(processor, &allowed)) continue;
    if (seen / share == place) CPU_SET(processor, &own);
    ++seen;
  }
  ::sched_setaffinity(0, sizeof own, &own);
  return share;
}

void wake_on_time() {
#ifdef __linux__
  ::prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
#endif
}

bool call_at_thread_end(void (*last)()) {
  struct Key {
    pthread_key_t key{};
    bool made = ::pthread_key_create(&key, [](void* function) { reinterpret_cast<void (*)()>(function)(); }) == 0;
  };
  static const Key key;
  return key.made && ::pthread_setspecific(key.key, reinterpret_cast<void*>(last)) == 0;
}

bool may_wait_at_thread_end() { return true; }

void call_before_statics(void (*)()) {}

}  // namespace heddle::os
