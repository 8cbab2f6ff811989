// heddle devices
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>
#include <string>
#include <vector>

#include "heddle/core/contract/quirks.h"
#include "heddle/core/device/registry.h"
#include "tools/cli.h"

namespace heddle::tools {
namespace {

Json json_of(const Caps& caps) {
  return {{"device_class", name_of(caps.device_class)},
          {"target", name_of(caps.target)},
          {"machine", name_of(caps.machine())},
          {"vendor_id", caps.vendor_id},
          {"compute_units", caps.compute_units},
          {"subgroup_size", caps.subgroup_size},
          {"shared_bytes", caps.shared_bytes},
          {"max_group_lanes", caps.max_group_lanes},
          {"max_group", caps.max_group},
          {"max_groups", caps.max_groups},
          {"max_bindings", caps.max_bindings},
          {"buffer_alignment", caps.buffer_alignment},
          {"max_binding_bytes", caps.max_binding_bytes},
          {"max_allocation_bytes", caps.max_allocation_bytes},
          {"memory_bytes", caps.memory_bytes},
          {"max_loop_iterations", caps.max_loop_iterations},
          {"unified_memory", caps.unified_memory},
          {"f16_arithmetic", caps.f16_arithmetic},
          {"f64", caps.f64},
          {"f64_math", caps.f64_math},
          {"i64", caps.i64},
          {"storage8", caps.storage8},
          {"storage16", caps.storage16},
          {"i64_arithmetic", caps.i64_arithmetic},
          {"int8_dot", caps.int8_dot},
          {"register_floats", caps.register_floats},
          {"matrix_units", caps.matrix_units}};
}

void show_json(const std::vector<DeviceInfo>& devices) {
  Json list = Json::array();
  for (const DeviceInfo& d : devices) {
    list.push_back({{"id", d.id},
                    {"backend", d.backend},
                    {"name", d.name},
                    {"driver", d.driver},
                    {"available", d.available},
                    {"reason", d.reason},
                    {"caps", d.available ? json_of(d.caps) : Json::object()}});
  }
  print_json(list);
}

void show_text(const std::vector<DeviceInfo>& devices) {
  for (const DeviceInfo& d : devices) {
    if (!d.available) {
      fmt::print("{:<13} not available: {}\n", d.id, d.reason);
    } else {
      fmt::print("{:<13} {} | {} | {}{}\n", d.id, d.name, d.driver, name_of(d.caps.device_class),
                 d.caps.memory_bytes == 0
                     ? ""
                     : fmt::format(", {:.1f} GiB", static_cast<double>(d.caps.memory_bytes) / (1u << 30)));
    }
  }
}

std::vector<std::string> devices_with(const QuirkRow& row, const std::vector<DeviceInfo>& devices) {
  std::vector<std::string> ids;
  for (const DeviceInfo& d : devices) {
    if (applies(row, d)) ids.push_back(d.id);
  }
  return ids;
}

std::string driver_text(const QuirkRow& row) {
  return row.device.empty() ? std::string(row.driver) : fmt::format("{}, {}", row.driver, row.device);
}

void quirks_json(const std::vector<DeviceInfo>& devices) {
  Json list = Json::array();
  for (const QuirkRow& row : quirk_table()) {
    list.push_back({{"quirk", row.name},
                    {"backend", row.backend},
                    {"driver", row.driver},
                    {"device", row.device},
                    {"versions", versions_text(row)},
                    {"what", row.what},
                    {"act", row.act},
                    {"test", row.test},
                    {"devices", devices_with(row, devices)}});
  }
  print_json(list);
}

// Three lines a row; those of devices that are here begin with a star.
void quirks_text(const std::vector<DeviceInfo>& devices) {
  for (const QuirkRow& row : quirk_table()) {
    const std::vector<std::string> here = devices_with(row, devices);
    fmt::print("{} {}: {} ({}), versions: {}{}\n", here.empty() ? ' ' : '*', row.name, driver_text(row), row.backend,
               versions_text(row), here.empty() ? "" : fmt::format("; here: {}", fmt::join(here, ", ")));
    fmt::print("    {}\n    {} Shown by {}.\n", row.what, row.act, row.test);
  }
}

}  // namespace

void add_devices(Cli& cli) {
  CLI::App* command =
      cli.app.add_subcommand("devices", "List devices, the best first, and why others are not available");
  auto json = std::make_shared<bool>(false), quirks = std::make_shared<bool>(false);
  add_json_option(*command, *json);
  command->add_flag("--quirks", *quirks,
                    "What single drivers do otherwise than others, and what Heddle does about it; a star marks what "
                    "applies to a device that is here");
  command->footer("Example:\n  heddle devices --json\n  heddle devices --quirks");
  command->callback([json, quirks] {
    const std::vector<DeviceInfo> devices = Registry::instance().devices();
    if (*quirks) return *json ? quirks_json(devices) : quirks_text(devices);
    *json ? show_json(devices) : show_text(devices);
  });
}

}  // namespace heddle::tools
