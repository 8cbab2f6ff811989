#include "heddle/core/tiles/tuning_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <limits>

#include "heddle/core/base/error.h"
#include "heddle/core/base/files.h"
#include "heddle/core/base/parse_json.h"
#include "heddle/core/base/parse_limits.h"
#include "heddle/core/base/parse_number.h"
#include "heddle/core/base/path.h"

namespace heddle {
namespace {

using Json = nlohmann::ordered_json;  // what is written

constexpr int format_version = 1;
constexpr const char* version_key = "heddle_tuning";
constexpr std::array targets = {Target::glsl, Target::opencl, Target::cuda};
constexpr std::array classes = {DeviceClass::cpu, DeviceClass::integrated_gpu, DeviceClass::discrete_gpu};

template <class Enum, size_t n>
Enum parse_name(const std::string& text, const std::array<Enum, n>& known, const char* what) {
  for (const Enum value : known) {
    if (name_of(value) == text) return value;
  }
  throw std::invalid_argument(fmt::format("unknown {} '{}'", what, text));
}

uint64_t parse_hex(const std::string& text, const char* what) {
  const std::string_view digits =
      std::string_view(text).substr(text.starts_with("0x") || text.starts_with("0X") ? 2 : 0);
  const std::optional<uint64_t> value = parse_number<uint64_t>(digits, 16);
  if (!value) throw std::invalid_argument(fmt::format("{} '{}' is no hexadecimal number", what, shortened(text)));
  return *value;
}

TuningEntry entry_of(const nlohmann::json& json) {
  TuningEntry entry;
  entry.key.body = json.at("body").get<std::string>();
  entry.key.variant = json.at("variant").get<std::string>();
  for (const nlohmann::json& size : json.at("sizes")) {
    if (!size.is_number_integer() || size < 0)
      throw std::invalid_argument(fmt::format("a size of {}", shortened(size.dump())));
    entry.key.sizes.push_back(size.get<int64_t>());
  }
  for (const auto& [name, value] : json.at("tunables").items()) {
    if (!value.is_number_integer()) throw std::invalid_argument(fmt::format("tunable {} is no integer", name));
    entry.tunables[name] = value.get<int64_t>();
  }
  entry.seconds = json.value("seconds", 0.0);
  entry.default_seconds = json.value("default_seconds", 0.0);
  return entry;
}

TuningDevice device_of(const nlohmann::json& json) {
  TuningDevice device;
  device.name = json.value("name", "");
  device.driver = json.value("driver", "");
  const std::string hash = json.at("driver_hash").get<std::string>();
  device.driver_hash = hash == "any" ? 0 : parse_hex(hash, "driver_hash");
  device.target = parse_name(json.at("target").get<std::string>(), targets, "target");
  device.device_class = parse_name(json.at("class").get<std::string>(), classes, "class");
  device.vendor_id = static_cast<uint32_t>(parse_hex(json.value("vendor", "0x0"), "vendor"));
  const nlohmann::json& entries = json.at("entries");
  if (entries.size() > max_tuning_entries)
    throw std::invalid_argument(
        fmt::format("{} entries of a device; at most {} are read", entries.size(), max_tuning_entries));
  for (const nlohmann::json& entry : entries) device.set(entry_of(entry));
  return device;
}

Json json_of(const TuningEntry& entry) {
  Json tunables = Json::object();
  for (const auto& [name, value] : entry.tunables) tunables[name] = value;
  return {{"body", entry.key.body},   {"variant", entry.key.variant},
          {"sizes", entry.key.sizes}, {"tunables", std::move(tunables)},
          {"seconds", entry.seconds}, {"default_seconds", entry.default_seconds}};
}

// One entry a line: a person can read it, and a version control system can compare it.
std::string text_of(const TuningDevice& device) {
  std::string hash = device.driver_hash == 0 ? "any" : fmt::format("0x{:x}", device.driver_hash);
  const Json head = {{"name", device.name},
                     {"driver", device.driver},
                     {"driver_hash", std::move(hash)},
                     {"target", std::string(name_of(device.target))},
                     {"class", std::string(name_of(device.device_class))},
                     {"vendor", fmt::format("0x{:x}", device.vendor_id)}};
  std::string text = head.dump(-1, ' ', false, Json::error_handler_t::replace);
  text.pop_back();
  std::vector<std::string> lines;
  for (const TuningEntry& entry : device.entries)
    lines.push_back("    " + json_of(entry).dump(-1, ' ', false, Json::error_handler_t::replace));
  return fmt::format("  {}, \"entries\": [{}{}]}}", text, lines.empty() ? "" : "\n", fmt::join(lines, ",\n"));
}

// Infinite when a size is out of reach.
double distance(const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double ratio = std::abs(
        std::log(static_cast<double>(std::max<int64_t>(a[i], 1)) / static_cast<double>(std::max<int64_t>(b[i], 1))));
    if (ratio > std::log(TuningDevice::max_factor) + 1e-9) return std::numeric_limits<double>::infinity();
    sum += ratio * ratio;
  }
  return sum;
}

}  // namespace

std::string TuningKey::str() const { return fmt::format("{} {} {}", body, variant, fmt::join(sizes, "x")); }

bool TuningDevice::same_identity(const TuningDevice& other) const {
  return driver_hash == other.driver_hash && target == other.target && device_class == other.device_class &&
         vendor_id == other.vendor_id;
}

void TuningDevice::set(TuningEntry entry) {
  const auto found =
      std::find_if(entries.begin(), entries.end(), [&](const TuningEntry& e) { return e.key == entry.key; });
  if (found != entries.end())
    *found = std::move(entry);
  else
    entries.push_back(std::move(entry));
}

const TuningEntry* TuningDevice::nearest(const TuningKey& key) const {
  const TuningEntry* best = nullptr;
  double least = std::numeric_limits<double>::infinity();
  for (const TuningEntry& entry : entries) {
    if (entry.key.body != key.body || entry.key.variant != key.variant || entry.key.sizes.size() != key.sizes.size())
      continue;
    const double d = distance(entry.key.sizes, key.sizes);
    if (d < least) {
      least = d;
      best = &entry;
    }
  }
  return best;
}

TuningTable TuningTable::parse(std::string_view text, const std::string& origin) {
  if (text.size() > max_tuning_bytes)
    throw IoError(fmt::format("[tuning] {}: {} bytes; at most {} are read", origin, text.size(), max_tuning_bytes));
  const nlohmann::json json = parse_json(text, fmt::format("[tuning] {}", origin));
  try {
    if (!json.is_object() || !json.contains(version_key))
      throw std::invalid_argument("is no tuning table (no key heddle_tuning)");
    if (json[version_key] != format_version) {
      throw std::invalid_argument(
          fmt::format("has format {}, this library reads {}", shortened(json[version_key].dump()), format_version));
    }
    TuningTable table;
    for (const nlohmann::json& device : json.at("devices")) {
      TuningTable one;
      one.devices.push_back(device_of(device));
      table.merge(one);
    }
    return table;
  } catch (const std::exception& error) {  // nlohmann's, and the ones above
    throw IoError(fmt::format("[tuning] {}: {}", origin, shortened(error.what())));
  }
}

TuningTable TuningTable::load(const std::string& path) {
  std::error_code code;
  if (!fs::is_regular_file(path, code)) {
    throw IoError(fmt::format("[tuning] {}: {}", path, fs::exists(path, code) ? "is not a file" : "no such file"));
  }
  std::string text;
  if (!read_contents(path, text))
    throw IoError(fmt::format("[tuning] {}: cannot be read: {}", path, std::strerror(errno)));
  return parse(text, path);
}

std::string TuningTable::str() const {
  std::vector<std::string> sections;
  for (const TuningDevice& device : devices) sections.push_back(text_of(device));
  return fmt::format("{{\"{}\": {}, \"devices\": [\n{}\n]}}\n", version_key, format_version,
                     fmt::join(sections, ",\n"));
}

TuningDevice& TuningTable::section(const DeviceInfo& info) {
  TuningDevice wanted{info.name,           info.driver, info.caps.driver_hash, info.caps.target, info.caps.device_class,
                      info.caps.vendor_id, {}};
  for (TuningDevice& device : devices) {
    if (device.same_identity(wanted)) return device;
  }
  return devices.emplace_back(std::move(wanted));
}

void TuningTable::merge(const TuningTable& other) {
  for (const TuningDevice& theirs : other.devices) {
    const auto found =
        std::find_if(devices.begin(), devices.end(), [&](const TuningDevice& d) { return d.same_identity(theirs); });
    if (found == devices.end()) {
      devices.push_back(theirs);
      continue;
    }
    for (const TuningEntry& entry : theirs.entries) found->set(entry);
  }
}

}  // namespace heddle
