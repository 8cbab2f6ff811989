#include <fmt/chrono.h>
#include <fmt/format.h>

#include <ctime>
#include <iterator>
#include <nlohmann/json.hpp>
#include <thread>

#include "heddle/core/base/build_info.h"
#include "heddle/core/base/system/machine.h"
#include "heddle/core/device/context.h"
#include "heddle/train/fingerprint.h"
#include "heddle/train/run_folder.h"

namespace heddle::train {
namespace {

using Json = nlohmann::ordered_json;

// Heddle's own variables alone: others may hold secrets.
Json variables() {
  Json result = Json::object();
  for (const std::string& text : os::variables()) {
    if (text.starts_with("HEDDLE_")) result[text.substr(0, text.find('='))] = text.substr(text.find('=') + 1);
  }
  return result;
}

Json host() {
  return {{"name", os::host_name()},
          {"system", os::system_name()},
          {"processor", os::processor_name()},
          {"threads", std::thread::hardware_concurrency()},
          {"memory_bytes", os::memory_bytes()}};
}

}  // namespace

std::string environment_json(const DeviceContext& device) {
  const DeviceInfo& info = device.info();
  const Json json = {{"started", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)))},
                     {"command", os::command_line()},
                     {"heddle", library_version()},
                     {"commit", source_commit()},
                     {"code", code_fingerprint()},
                     {"compiler", compiler_version()},
                     {"device",
                      {{"id", info.id},
                       {"name", info.name},
                       {"driver", info.driver},
                       {"class", name_of(info.caps.device_class)},
                       {"memory_bytes", info.caps.memory_bytes}}},
                     {"host", host()},
                     {"variables", variables()}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace heddle::train
