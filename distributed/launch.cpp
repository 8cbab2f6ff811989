#include "heddle/distributed/launch.h"

#include <fmt/format.h>

#include "heddle/core/base/parse_number.h"
#include "heddle/core/base/system/machine.h"

namespace heddle::distributed {
namespace {

int number_in(const char* name) {
  const int value = parse_number<int>(os::variable(name).value_or("")).value_or(0);
  return value > 0 ? value : 0;
}

}  // namespace

std::string Launch::str() const {
  if (kind == Kind::none) return "no launcher started this process";
  const char* const who = kind == Kind::pmix ? "a PMIx launcher" : "mpirun";
  return ranks == 0 ? fmt::format("{} started this process", who)
                    : fmt::format("{} started {} rank{}", who, ranks, ranks == 1 ? "" : "s");
}

Launch launch_of_process() {
  if (const int ranks = number_in("OMPI_COMM_WORLD_SIZE")) return {Launch::Kind::open_mpi, ranks};
  if (const int ranks = number_in("PMI_SIZE")) return {Launch::Kind::mpich, ranks};
  if (os::variable("PMIX_RANK")) return {Launch::Kind::pmix, number_in("SLURM_STEP_NUM_TASKS")};
  return {};
}

}  // namespace heddle::distributed
