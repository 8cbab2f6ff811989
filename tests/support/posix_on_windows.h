// The calls of POSIX that tests use, for Windows; in front of every file of tests there (tests/CMakeLists.txt).
#pragma once

#include <stdlib.h>

#include "heddle/core/base/system/machine.h"

inline int setenv(const char* name, const char* value, int replace) {
  if (replace != 0 || !heddle::os::variable(name)) heddle::os::set_variable(name, value);
  return 0;
}

inline int unsetenv(const char* name) {
  heddle::os::set_variable(name, std::nullopt);
  return 0;
}
