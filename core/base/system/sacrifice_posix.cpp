#include <sys/resource.h>
#include <unistd.h>

#include "heddle/core/base/system/sacrifice.h"

namespace heddle::os {

void expect_to_die(unsigned seconds) {
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  ::alarm(seconds);
}

}  // namespace heddle::os
