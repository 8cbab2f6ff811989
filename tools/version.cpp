// heddle version
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "heddle/core/device/registry.h"
#include "tools/cli.h"

namespace heddle::tools {

void add_version(Cli& cli) {
  CLI::App* command = cli.app.add_subcommand("version", "Print the version and the backends of this build");
  auto json = std::make_shared<bool>(false);
  add_json_option(*command, *json);
  command->footer("Example:\n  heddle version");
  command->callback([json] {
    std::vector<std::string> backends;
    for (const DeviceInfo& d : Registry::instance().devices()) {
      if (std::find(backends.begin(), backends.end(), d.backend) == backends.end()) backends.push_back(d.backend);
    }
    if (*json) {
      print_json({{"version", HEDDLE_VERSION}, {"compiler", __VERSION__}, {"backends", backends}});
    } else {
      fmt::print("heddle {}\nbackends: {}\ncompiler: {}\n", HEDDLE_VERSION, fmt::join(backends, ", "), __VERSION__);
    }
  });
}

}  // namespace heddle::tools
