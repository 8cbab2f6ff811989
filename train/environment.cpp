#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <ctime>
#include <iterator>
#include <nlohmann/json.hpp>
#include <thread>

#include "heddle/core/base/build_info.h"
#include "heddle/core/base/files.h"
#include "heddle/core/base/text_stream.h"
#include "heddle/core/device/context.h"
#include "heddle/train/fingerprint.h"
#include "heddle/train/run_folder.h"

extern char** environ;

namespace heddle::train {
namespace {

using Json = nlohmann::ordered_json;

// What stands behind "model name" in Linux's list of processors; empty elsewhere.
std::string processor() {
  std::string text;
  read_contents("/proc/cpuinfo", text);
  TextInput in(text);
  for (std::string line; std::getline(in, line);) {
    if (const size_t colon = line.find(": "); line.starts_with("model name") && colon != std::string::npos)
      return line.substr(colon + 2);
  }
  return {};
}

Json command_line() {
  std::string text;
  read_contents("/proc/self/cmdline", text);
  TextInput in(text);
  Json arguments = Json::array();
  for (std::string argument; std::getline(in, argument, '\0');) arguments.push_back(argument);
  return arguments;
}

// Heddle's own variables alone: others may hold secrets.
Json variables() {
  Json result = Json::object();
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    if (text.starts_with("HEDDLE_"))
      result[std::string(text.substr(0, text.find('=')))] = text.substr(text.find('=') + 1);
  }
  return result;
}

Json host() {
  utsname names{};
  ::uname(&names);
  const auto memory =
      static_cast<uint64_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(::sysconf(_SC_PAGE_SIZE));
  return {{"name", names.nodename},
          {"system", fmt::format("{} {} {}", names.sysname, names.release, names.machine)},
          {"processor", processor()},
          {"threads", std::thread::hardware_concurrency()},
          {"memory_bytes", memory}};
}

}  // namespace

std::string environment_json(const DeviceContext& device) {
  const DeviceInfo& info = device.info();
  const Json json = {{"started", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)))},
                     {"command", command_line()},
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
