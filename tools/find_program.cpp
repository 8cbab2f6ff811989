#include "tools/find_program.h"

#include <algorithm>

#include "heddle/core/base/system/files.h"
#include "heddle/core/base/system/machine.h"

namespace heddle::tools {

std::string find_program(const std::string& name, const std::vector<std::string>& folders) {
  std::string all = os::variable("PATH").value_or("/usr/bin:/bin");
  for (const std::string& folder : folders) all += os::list_separator + folder;
  for (size_t at = 0; at <= all.size();) {
    const size_t end = std::min(all.find(os::list_separator, at), all.size());
    const std::string file = all.substr(at, end - at) + "/" + name + os::program_suffix;
    if (end > at && os::is_executable(file)) return file;
    at = end + 1;
  }
  return {};
}

}  // namespace heddle::tools
