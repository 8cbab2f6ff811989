// Launch: who started this process, by the variables that launchers set.
//
// Thread safety: as the environment's.
#pragma once

#include <string>

namespace heddle::distributed {

struct Launch {
  enum class Kind { none, open_mpi, mpich, pmix };  // pmix: Slurm's srun, and others that do not say which MPI
  Kind kind = Kind::none;
  int ranks = 0;  // 0: the launcher does not say
  // "mpirun started 4 ranks".
  std::string str() const;
};

Launch launch_of_process();

}  // namespace heddle::distributed
