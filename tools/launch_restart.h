// What `heddle launch` starts when a rank was killed: the run again, from its last checkpoint.
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
};

// Whether it stands in the command, as --option VALUE or --option=VALUE.
bool names_option(const std::vector<std::string>& command, std::string_view option);
// ValueError where the command cannot be begun again.
void check_restarts(const Restarts& restarts, const std::vector<std::string>& command);
// The command that goes on with the run that `command` began. A run that left nothing begins again.
std::vector<std::string> command_that_goes_on(std::vector<std::string> command);

}  // namespace heddle::tools
