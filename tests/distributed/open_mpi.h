// Whether Open MPI is there to start ranks.
#pragma once

#include <cstdlib>
#include <string>

#include "tests/cli/subprocess.h"

namespace heddle::test {

inline constexpr const char* no_open_mpi = "Open MPI's mpirun is not installed (Debian: openmpi-bin)";

// The first number of its version; 0: there is none.
inline int version_of_mpirun() {
  const std::string said = run_program({"/usr/bin/env", "mpirun", "--version"}).out, name = "(Open MPI) ";
  const size_t at = said.find(name);
  return at == std::string::npos ? 0 : std::atoi(said.c_str() + at + name.size());
}

}  // namespace heddle::test
