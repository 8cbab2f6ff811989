// Where another program is.
//
// Thread safety: as reading the environment is.
#pragma once

#include <string>
#include <vector>

namespace heddle::tools {

// The file that the shell would run, or one of those folders'; empty when there is none.
std::string find_program(const std::string& name, const std::vector<std::string>& folders = {});

}  // namespace heddle::tools
