// The calls of POSIX that tests use, for Windows; in front of every file of tests there (tests/CMakeLists.txt).
#pragma once

#include <stdlib.h>

#include "heddle/core/base/system/machine.h"

// The system's library holds no empty variables: one that is set to nothing is none.
inline int setenv(const char* name, const char* value, int replace) {
  if (replace != 0 || getenv(name) == nullptr) heddle::os::set_variable(name, value);
  return 0;
}

inline int unsetenv(const char* name) {
  heddle::os::set_variable(name, "");
  return 0;
}
