#include "tools/cli.h"

#include <fmt/format.h>

#include <algorithm>

#include "heddle/core/base/error.h"
#include "heddle/core/device/context.h"
#include "tools/output.h"

namespace heddle::tools {

void add_device_option(CLI::App& command, std::string& device) {
  command.add_option("--device", device,
                     "Device, e.g. vulkan:0; default: HEDDLE_DEVICE, else the best one (see `heddle devices`)");
}

void add_json_option(CLI::App& command, bool& json) { command.add_flag("--json", json, "Print JSON instead of text"); }

void add_budget_option(CLI::App& command, uint64_t& bytes) {
  command
      .add_option("--memory-budget", bytes,
                  "Memory that a training step may hold, e.g. 512MiB: values are computed again where keeping them "
                  "would take more; 0: no limit")
      ->transform(CLI::AsSizeValue(true));
}

DeviceContext& open_device(const std::string& name, bool computes) {
  DeviceContext& context = name.empty() ? default_device() : device(name);
  if (computes && context.caps().device_class == DeviceClass::null) {
    throw ValueError(
        fmt::format("[device] {} checks programs but computes nothing; choose another device", context.id()));
  }
  set_default_device(context.id());
  return context;
}

void print_json(const Json& value) {
  const std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  print_out(text + '\n');
}

std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  while (!text.empty() && text.back() == ' ') text.pop_back();
  return text;
}

}  // namespace heddle::tools
