// What `heddle launch` does when a rank was killed: it starts the run again, from its last checkpoint, or, elastic,
// leaves it to the other ranks.
//
// Thread safety: none.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace heddle::tools {

struct Restarts {
  int64_t left = 0;
  bool fewer_ranks = false;  // without the rank that was killed
  bool elastic = false;      // the others go on by themselves
};

// Whether it stands in the command, as --option VALUE or --option=VALUE.
bool names_option(const std::vector<std::string>& command, std::string_view option);
// ValueError where the command cannot be begun again.
void check_restarts(const Restarts& restarts, const std::vector<std::string>& command);
// ValueError where this mpirun ends all ranks with the first one; `version` is what it says of itself.
void check_elastic_mpirun(std::string_view version);
// The command that goes on with the run that `command` began. A run that left nothing begins again.
std::vector<std::string> command_that_goes_on(std::vector<std::string> command);

}  // namespace heddle::tools
