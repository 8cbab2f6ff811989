#include "heddle/core/base/thread_stack.h"

#include <pthread.h>

#include <cstddef>

namespace heddle {

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

}  // namespace heddle
