// How the programs of this folder end where they cannot go on.
#pragma once

#include <cstdio>
#include <cstdlib>

// `program`: what the line on standard error begins with.
[[noreturn]] inline void fail(const char* program, const char* what) {
  std::fprintf(stderr, "%s: %s\n", program, what);
  std::exit(2);
}
