#include "tools/plan_cluster.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "heddle/core/base/error.h"
#include "tools/toml_values.h"

namespace heddle::tools {
namespace {

using distributed::Level;
using distributed::Machine;
using train::TomlEntry;

const std::map<std::string, double Machine::*>& machine_keys() {
  static const std::map<std::string, double Machine::*> keys = {{"flops_f32", &Machine::flops_f32},
                                                                {"flops_f16", &Machine::flops_f16},
                                                                {"flops_bf16", &Machine::flops_bf16},
                                                                {"memory", &Machine::memory},
                                                                {"memory_bandwidth", &Machine::memory_bandwidth},
                                                                {"efficiency", &Machine::efficiency},
                                                                {"half_size", &Machine::half_size},
                                                                {"cut", &Machine::cut},
                                                                {"record", &Machine::record}};
  return keys;
}

void take_machine(const TomlValues& file, const TomlEntry& entry, const std::string& key, Machine& machine) {
  const auto found = machine_keys().find(key);
  if (found == machine_keys().end()) file.refuse(entry, "is no key of [machine]");
  machine.*found->second = file.number(entry);
}

void take_level(const TomlValues& file, const TomlEntry& entry, const std::string& rest, std::vector<Level>& levels) {
  const size_t dot = rest.rfind('.');
  const std::string name = rest.substr(0, dot), key = dot == std::string::npos ? "" : rest.substr(dot + 1);
  if (key != "ranks" && key != "bandwidth" && key != "latency" && key != "processor")
    file.refuse(entry, "is no key of a level, which has ranks, bandwidth, latency and processor");
  auto level = std::find_if(levels.begin(), levels.end(), [&](const Level& l) { return l.name == name; });
  if (level == levels.end()) level = levels.insert(levels.end(), {.name = name});
  if (key == "ranks") level->ranks = file.integer(entry);
  if (key == "bandwidth") level->bandwidth = file.number(entry);
  if (key == "latency") level->latency = file.number(entry);
  if (key == "processor") level->processor = file.number(entry);
}

distributed::Cluster read_file(const std::string& path) {
  const TomlValues file("link", path);
  Machine machine;
  std::vector<Level> levels;
  for (const TomlEntry& entry : file.entries()) {
    if (entry.key.starts_with("machine."))
      take_machine(file, entry, entry.key.substr(8), machine);
    else if (entry.key.starts_with("level."))
      take_level(file, entry, entry.key.substr(6), levels);
    else
      file.refuse(entry, "is neither of [machine] nor of [level.NAME]");
  }
  distributed::check(machine);
  return {path, machine, distributed::Links(std::move(levels))};
}

}  // namespace

distributed::Cluster read_cluster(const std::string& name) {
  return name.ends_with(".toml") ? read_file(name) : distributed::known_cluster(name);
}

}  // namespace heddle::tools
