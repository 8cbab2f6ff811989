#include "heddle/nn/models/config_reader.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "heddle/core/base/error.h"
#include "heddle/core/base/shortened.h"

namespace heddle::nn {

void ConfigReader::fail(std::string_view what) const { throw IoError(fmt::format("[config] {}: {}", path_, what)); }

const nlohmann::json* ConfigReader::find(const char* key) const {
  const auto found = json_.find(key);
  return found == json_.end() || found->is_null() ? nullptr : &*found;
}
bool ConfigReader::has(const char* key) const { return find(key) != nullptr; }

const nlohmann::json& ConfigReader::at(const char* key) const {
  const nlohmann::json* value = find(key);
  if (value == nullptr) fail(fmt::format("it has no {}", key));
  return *value;
}

void ConfigReader::refuse(const char* key, std::string_view expected) const {
  fail(fmt::format("{} is {}, expected {}", key, shortened(at(key).dump()), expected));
}

int64_t ConfigReader::size(const char* key, std::optional<int64_t> otherwise, int64_t most, int64_t least) const {
  if (otherwise && !has(key)) return *otherwise;
  const nlohmann::json& value = at(key);
  const int64_t size = value.is_number_integer() ? value.get<int64_t>() : least - 1;
  if (size < least || size > most) refuse(key, fmt::format("{} to {}", least, most));
  return size;
}

double ConfigReader::number(const char* key, std::optional<double> otherwise) const {
  if (otherwise && !has(key)) return *otherwise;
  const nlohmann::json& value = at(key);
  if (!value.is_number() || !std::isfinite(value.get<double>())) refuse(key, "a number");
  return value.get<double>();
}

bool ConfigReader::flag(const char* key, bool otherwise) const {
  if (!has(key)) return otherwise;
  if (!at(key).is_boolean()) refuse(key, "true or false");
  return at(key).get<bool>();
}

std::string ConfigReader::text(const char* key, const std::string& otherwise) const {
  if (!has(key)) return otherwise;
  if (!at(key).is_string()) refuse(key, "a text");
  return at(key).get<std::string>();
}

std::vector<std::string> ConfigReader::texts(const char* key) const {
  const nlohmann::json& list = at(key);
  std::vector<std::string> all;
  if (!list.is_array()) refuse(key, "a list of texts");
  for (const nlohmann::json& value : list) {
    if (!value.is_string()) refuse(key, "a list of texts");
    all.push_back(value.get<std::string>());
  }
  return all;
}

std::vector<int32_t> ConfigReader::tokens(const char* key) const {
  if (!has(key)) return {};
  const nlohmann::json list = at(key).is_array() ? at(key) : nlohmann::json::array({at(key)});
  std::vector<int32_t> all;
  for (const nlohmann::json& value : list) {
    const int64_t token = value.is_number_integer() ? value.get<int64_t>() : -1;
    if (token < 0 || token > std::numeric_limits<int32_t>::max()) refuse(key, "a token or a list of them");
    all.push_back(static_cast<int32_t>(token));
  }
  return all;
}

ConfigReader ConfigReader::inside(const char* key) const {
  if (!at(key).is_object()) refuse(key, "an object");
  return {at(key), path_};
}

}  // namespace heddle::nn
